//! Rollouts: a share of the runs uses a candidate policy, the others the current one.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Arm, ArmSummaries, Measured, Trial, Tuning};
use crate::retry::{InvalidPolicy, Seed};
use crate::{RolloutId, RunId, Timestamp};

const DURATION_MIN: Duration = Duration::from_secs(1);
const DURATION_MAX: Duration = Duration::from_hours(24 * 90);

/// The share of runs that use the candidate, in hundredths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Share(u32);

impl Share {
    const WHOLE: u32 = 10_000;

    /// From 0.01 to 99.99 percent: a comparison needs runs in both arms.
    pub fn of_percent(percent: f64) -> Result<Self, InvalidPolicy> {
        let hundredths = (percent * 100.0).round();
        // A finer share is rejected rather than rounded silently.
        if !(1.0..=9_999.0).contains(&hundredths) || (percent * 100.0 - hundredths).abs() > 1e-6 {
            return Err(InvalidPolicy::new(format!(
                "invalid share {percent}: use 0.01 to 99.99 percent, in steps of 0.01"
            )));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number within the bounds above"
        )]
        let hundredths = hundredths as u32;
        Ok(Self(hundredths))
    }

    pub fn percent(self) -> f64 {
        f64::from(self.0) / 100.0
    }
}

impl fmt::Display for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} %", self.percent())
    }
}

/// What ends a rollout early.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = GuardLimits)]
pub struct Guards {
    /// How many times as much as the control the candidate may cost: p95 and p99 lock wait, p95 result latency, retries
    /// per result, each by the ends of its 99 % interval.
    #[schema(minimum = 1, maximum = 100, default = 2)]
    pub ratio: f64,
    /// Results that each arm must have before anything is concluded.
    #[schema(minimum = 1, maximum = 1_000_000, default = 50)]
    pub min_samples: u64,
    /// The longest p99 lock wait of the candidate, whatever the control's is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_p99_lock_wait_ms: Option<u64>,
}

impl Default for Guards {
    fn default() -> Self {
        Self { ratio: 2.0, min_samples: 50, max_p99_lock_wait_ms: None }
    }
}

impl Guards {
    fn checked(self) -> Result<Self, InvalidPolicy> {
        if !(1.0..=100.0).contains(&self.ratio) {
            return Err(InvalidPolicy::new(format!("invalid ratio {}: use 1 to 100", self.ratio)));
        }
        if !(1..=1_000_000).contains(&self.min_samples) {
            let text = format!("invalid min_samples {}: use 1 to 1000000", self.min_samples);
            return Err(InvalidPolicy::new(text));
        }
        Ok(self)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RolloutState {
    Running,
    /// The candidate became the current policy.
    Promoted,
    /// A guard ended it; the control stays.
    RolledBack,
    /// An operator ended it; the control stays.
    Aborted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RolloutEventKind {
    Started,
    Promoted,
    RolledBack,
    Aborted,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RolloutEvent {
    pub kind: RolloutEventKind,
    pub at: Timestamp,
    pub by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    pub id: RolloutId,
    pub candidate: Tuning,
    /// The current tuning at the start, used by the other runs.
    pub control: Tuning,
    pub control_version: u64,
    pub share: Share,
    pub guards: Guards,
    pub started_at: Timestamp,
    pub ends_at: Timestamp,
    pub state: RolloutState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The final measurements, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// What they say; none in a rollout that an older release has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summaries: Option<ArmSummaries>,
    /// Oldest first.
    pub history: Vec<RolloutEvent>,
}

pub fn arm_of(rollout: &RolloutId, share: Share, run: RunId) -> Arm {
    let place = Seed::of(&format!("rollout\n{rollout}\n{run}")).number() % u64::from(Share::WHOLE);
    if place < u64::from(share.0) { Arm::Candidate } else { Arm::Control }
}

impl Rollout {
    pub fn is_running(&self) -> bool {
        self.state == RolloutState::Running
    }

    /// The arm of a run, identical for all its results and on every replica.
    pub fn arm_of(&self, run: RunId) -> Arm {
        arm_of(&self.id, self.share, run)
    }

    pub fn tuning(&self, arm: Arm) -> Tuning {
        match arm {
            Arm::Control => self.control,
            Arm::Candidate => self.candidate,
        }
    }

    /// How long the arms were measured.
    pub fn elapsed(&self, now: Timestamp) -> Duration {
        self.ended_at.unwrap_or(now).since(self.started_at)
    }

    pub(super) fn checked(self) -> Result<Self, InvalidPolicy> {
        self.candidate.checked()?;
        self.guards.checked()?;
        let duration = self.ends_at.since(self.started_at);
        if !(DURATION_MIN..=DURATION_MAX).contains(&duration) {
            return Err(InvalidPolicy::new("a rollout lasts from 1 second to 90 days".to_owned()));
        }
        if self.candidate == self.control {
            return Err(InvalidPolicy::new("the candidate equals the current policy".to_owned()));
        }
        Ok(self)
    }

    pub(super) fn end(&mut self, event: RolloutEvent, measured: Measured) {
        self.state = match event.kind {
            RolloutEventKind::Started => RolloutState::Running,
            RolloutEventKind::Promoted => RolloutState::Promoted,
            RolloutEventKind::RolledBack => RolloutState::RolledBack,
            RolloutEventKind::Aborted => RolloutState::Aborted,
        };
        self.ended_at = Some(event.at);
        self.summaries = Some(Trial { rollout: self, measured: &measured, now: event.at }.summaries());
        self.measured = Some(measured.without_cohorts());
        self.history.push(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_as_many_places_as_it_says() {
        let (rollout, run): (RolloutId, RunId) =
            ("one".parse().unwrap(), RunId::new(Timestamp::ZERO, [7; 10]));
        let candidates =
            (0..=Share::WHOLE).filter(|share| arm_of(&rollout, Share(*share), run) == Arm::Candidate);
        let place = Seed::of(&format!("rollout\n{rollout}\n{run}")).number() % u64::from(Share::WHOLE);
        assert_eq!(
            candidates.count() as u64,
            u64::from(Share::WHOLE) - place,
            "from the share above its place on"
        );
    }
}
