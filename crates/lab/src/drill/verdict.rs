//! Compares observations with the plan. Pure.

use std::time::Duration;

use interlock_model::time::millis;
use serde::Serialize;

use super::plan::{CHECKS, DrillActor, DrillOperation, ExpectedOutcome};
use super::protocol::{DrillOutcome, Observation};

/// Whether late writes were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DrillVerdict {
    Held,
    Unknown,
    Broken,
}

/// Whether one check passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowVerdict {
    Ok,
    Unknown,
    Broken,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DrillRow {
    #[serde(rename = "who")]
    pub actor: DrillActor,
    #[serde(rename = "what")]
    pub operation: DrillOperation,
    pub fence: Option<u64>,
    pub expected: ExpectedOutcome,
    /// The response; null if the operation was not reached.
    pub seen: Option<String>,
    /// The number of observations. If they differ, the row shows the worst.
    pub times: usize,
    pub verdict: RowVerdict,
}

/// A row per check of the plan. `ttl` is the duration of every lease.
pub(super) fn evaluate(observations: &[(DrillActor, Observation)], ttl: Duration) -> Vec<DrillRow> {
    let observations = Observations { all: observations, ttl_ms: millis(ttl) };
    CHECKS.iter().map(|&(actor, operation, expected)| observations.row(actor, operation, expected)).collect()
}

/// The worst of the rows; unknown if there are none.
pub(super) fn overall(rows: &[DrillRow]) -> DrillVerdict {
    match rows.iter().map(|row| row.verdict).max() {
        Some(RowVerdict::Ok) => DrillVerdict::Held,
        Some(RowVerdict::Unknown) | None => DrillVerdict::Unknown,
        Some(RowVerdict::Broken) => DrillVerdict::Broken,
    }
}

struct Observations<'a> {
    all: &'a [(DrillActor, Observation)],
    ttl_ms: u64,
}

impl<'a> Observations<'a> {
    fn of(&self, actor: DrillActor) -> impl Iterator<Item = &'a Observation> + use<'a> {
        self.all.iter().filter(move |(by, _)| *by == actor).map(|(_, observation)| observation)
    }

    fn row(&self, actor: DrillActor, operation: DrillOperation, expected: ExpectedOutcome) -> DrillRow {
        let matching = || self.of(actor).filter(|observation| observation.operation == operation);
        let worst = matching().max_by_key(|observation| self.verdict(observation, expected));
        DrillRow {
            actor,
            operation,
            expected,
            fence: worst.and_then(|observation| observation.fence),
            seen: worst.map(|observation| observation.detail.clone()),
            times: matching().count(),
            verdict: worst.map_or(RowVerdict::Unknown, |observation| self.verdict(observation, expected)),
        }
    }

    fn verdict(&self, observation: &Observation, expected: ExpectedOutcome) -> RowVerdict {
        match (expected, observation.outcome) {
            (ExpectedOutcome::Accepted, DrillOutcome::Accepted)
            | (ExpectedOutcome::NotGranted, DrillOutcome::Held)
            | (ExpectedOutcome::Refused, DrillOutcome::Stale)
            | (ExpectedOutcome::Kept, DrillOutcome::Kept) => RowVerdict::Ok,
            (ExpectedOutcome::LargerFence, DrillOutcome::Accepted) if self.has_larger_fence(observation) => {
                RowVerdict::Ok
            }
            (ExpectedOutcome::LargerFence | ExpectedOutcome::Refused, DrillOutcome::Accepted)
            | (ExpectedOutcome::Kept, DrillOutcome::Overwritten) => RowVerdict::Broken,
            // On a busy machine the lease may expire before the response. Then the refusal is correct.
            (ExpectedOutcome::Accepted, DrillOutcome::Stale) if observation.lease_age_ms < self.ttl_ms => {
                RowVerdict::Broken
            }
            // Two holders at once, provided that the first has not lost its lease.
            (ExpectedOutcome::NotGranted, DrillOutcome::Accepted) if self.holder_never_failed() => {
                RowVerdict::Broken
            }
            _ => RowVerdict::Unknown,
        }
    }

    fn has_larger_fence(&self, later: &Observation) -> bool {
        let mut earlier =
            self.of(DrillActor::HolderLive).filter(|earlier| earlier.operation == later.operation);
        earlier.all(|earlier| later.fence > earlier.fence)
    }

    fn holder_never_failed(&self) -> bool {
        self.of(DrillActor::HolderLive)
            .all(|write| write.outcome == DrillOutcome::Accepted && write.lease_age_ms < self.ttl_ms)
    }
}

pub(super) fn summary(rows: &[DrillRow], paused_ms: Option<u64>) -> String {
    let Some(paused_ms) = paused_ms else {
        return "unknown: the drill did not reach the late writes".to_owned();
    };
    let late: Vec<_> = rows.iter().filter(|row| row.expected == ExpectedOutcome::Refused).collect();
    let refused = late.iter().filter(|row| row.verdict == RowVerdict::Ok).count();
    let found =
        format!("after a pause of {paused_ms} ms, {refused} of {} late writes were refused", late.len());
    let names = |verdict| {
        let rows = rows.iter().filter(|row| row.verdict == verdict);
        rows.map(|row| format!("{}: {}", row.actor, row.operation)).collect::<Vec<_>>().join("; ")
    };
    match overall(rows) {
        DrillVerdict::Held => format!("held: {found}, and no write of a live holder"),
        DrillVerdict::Broken => format!("broken: {found}. Unexpected: {}", names(RowVerdict::Broken)),
        DrillVerdict::Unknown => format!("unknown: {found}. Inconclusive: {}", names(RowVerdict::Unknown)),
    }
}

#[cfg(test)]
mod tests;
