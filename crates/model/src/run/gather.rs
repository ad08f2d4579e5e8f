//! Batching of results: whether a turn may wait for more of them, so that a burst costs few writes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::advance::{Advance, Effects};
use super::{Head, InboxEvent, RunStatus};
use crate::job::JobOutcome;
use crate::step::StepRun;
use crate::{StepKey, Timestamp};

/// The minimum interval between turns, per open job. A turn costs more the more steps its run has, and the result of one
/// among many jobs can wait. The last few results do not wait.
const INTERVAL_PER_JOB: Duration = Duration::from_micros(50);

/// How long a turn on `inbox` may wait at `now`, by the time since the run's last turn and the number of open jobs. None
/// means that the turn is due.
///
/// A result after a quiet period and the last result are due at once. Only a turn that
/// [only records results](only_records_results) may wait.
pub fn wait_for_more(
    run: (&Head, &BTreeMap<StepKey, StepRun>),
    inbox: &[InboxEvent],
    now: Timestamp,
    longest: Duration,
) -> Option<Duration> {
    let (head, steps) = run;
    // The last turn's clock was ahead of this one, so the interval is unknown.
    if now < head.updated_at {
        return None;
    }
    let since = now.since(head.updated_at);
    if since >= longest || inbox.is_empty() || !inbox.iter().all(is_success) {
        return None;
    }
    let open = steps.values().filter(|step| step.job_open).count().saturating_sub(inbox.len());
    let interval = INTERVAL_PER_JOB.saturating_mul(u32::try_from(open).unwrap_or(u32::MAX)).min(longest);
    interval.checked_sub(since).filter(|wait| !wait.is_zero())
}

/// Whether this turn only records the results in `inbox` and lets nothing else begin. `before` is the run's status before
/// the turn.
pub fn only_records_results(before: RunStatus, inbox: &[InboxEvent], turn: &Advance) -> bool {
    let reported = inbox.iter().filter_map(|event| {
        let InboxEvent::Job { job, .. } = event else { return None };
        Some(&job.step)
    });
    let reported: BTreeSet<&StepKey> = reported.collect();
    // A step that fans out counts its items, so its row changes with theirs.
    let is_reported = |key: &StepKey| {
        reported.contains(key) || (key.item.is_none() && reported.iter().any(|item| item.step == key.step))
    };
    turn.effects == Effects::default()
        && !turn.continues
        && turn.run.head.status == before
        && turn.changed.iter().all(is_reported)
}

fn is_success(event: &InboxEvent) -> bool {
    matches!(event, InboxEvent::Job { outcome: JobOutcome::Completed { .. }, .. })
}
