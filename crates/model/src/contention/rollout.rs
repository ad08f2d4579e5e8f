//! A policy that some of the runs try, beside the one in force for the others.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Arm, Measured, Tuning};
use crate::retry::{InvalidPolicy, Seed};
use crate::{RolloutId, RunId, Timestamp};

/// The shortest and the longest time that a roll-out may take.
const DURATION_MIN: Duration = Duration::from_secs(1);
const DURATION_MAX: Duration = Duration::from_hours(24 * 90);

/// Which share of the runs tries the candidate, in hundredths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Share(u32);

impl Share {
    const WHOLE: u32 = 10_000;

    /// From 0.01 to 99.99 percent: without runs on both sides there is nothing to compare.
    pub fn of_percent(percent: f64) -> Result<Self, InvalidPolicy> {
        let wrong = || {
            InvalidPolicy::new(format!(
                "a share goes from 0.01 to 99.99 percent in steps of 0.01, and is not {percent}"
            ))
        };
        let hundredths = (percent * 100.0).round();
        // What is finer than a hundredth is not rounded in silence.
        if !(1.0..=9_999.0).contains(&hundredths) || (percent * 100.0 - hundredths).abs() > 1e-6 {
            return Err(wrong());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number within the bounds above"
        )]
        let hundredths = hundredths as u32;
        Ok(Self(hundredths))
    }

    #[must_use]
    pub fn percent(self) -> f64 {
        f64::from(self.0) / 100.0
    }
}

impl fmt::Display for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} %", self.percent())
    }
}

/// What ends a roll-out before its time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Guards {
    /// How many times as much as the control the candidate may cost.
    pub ratio: f64,
    /// Results that each arm must have before anything is concluded from them.
    pub min_samples: u64,
    /// The longest that the candidate's p99 of lock waits may be, whatever the control's is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
            return Err(InvalidPolicy::new(format!(
                "the guard's ratio goes from 1 to 100, not {}",
                self.ratio
            )));
        }
        if !(1..=1_000_000).contains(&self.min_samples) {
            let found = self.min_samples;
            return Err(InvalidPolicy::new(format!("min_samples goes from 1 to 1000000, not {found}")));
        }
        Ok(self)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RolloutState {
    Running,
    /// The candidate is in force.
    Promoted,
    /// It ended itself; the control stays in force.
    RolledBack,
    /// Somebody ended it; the control stays in force.
    Aborted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RolloutEventKind {
    Started,
    Promoted,
    RolledBack,
    Aborted,
}

/// Something that happened to a roll-out.
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
    /// What was in force when it began, and stays so for the other runs.
    pub control: Tuning,
    pub control_version: u64,
    pub share: Share,
    pub guards: Guards,
    pub started_at: Timestamp,
    pub ends_at: Timestamp,
    pub state: RolloutState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// What it was judged by, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// Oldest first.
    pub history: Vec<RolloutEvent>,
}

/// The arm of a run in the roll-out with this id.
#[must_use]
pub fn arm_of(rollout: &RolloutId, share: Share, run: RunId) -> Arm {
    let place = Seed::of(&format!("rollout\n{rollout}\n{run}")).number() % u64::from(Share::WHOLE);
    if place < u64::from(share.0) { Arm::Candidate } else { Arm::Control }
}

impl Rollout {
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == RolloutState::Running
    }

    /// The arm of a run: the same for all its results, on every replica.
    #[must_use]
    pub fn arm_of(&self, run: RunId) -> Arm {
        arm_of(&self.id, self.share, run)
    }

    #[must_use]
    pub fn tuning(&self, arm: Arm) -> Tuning {
        match arm {
            Arm::Control => self.control,
            Arm::Candidate => self.candidate,
        }
    }

    /// For how long the arms were measured.
    #[must_use]
    pub fn elapsed(&self, now: Timestamp) -> Duration {
        self.ended_at.unwrap_or(now).since(self.started_at)
    }

    pub(super) fn checked(self) -> Result<Self, InvalidPolicy> {
        self.candidate.checked()?;
        self.guards.checked()?;
        let duration = self.ends_at.since(self.started_at);
        if !(DURATION_MIN..=DURATION_MAX).contains(&duration) {
            return Err(InvalidPolicy::new("a roll-out takes from 1 second to 90 days".to_owned()));
        }
        if self.candidate == self.control {
            return Err(InvalidPolicy::new("the candidate is what is in force already".to_owned()));
        }
        Ok(self)
    }

    /// Ends it. `event` tells how.
    pub(super) fn end(&mut self, event: RolloutEvent, measured: Measured) {
        self.state = match event.kind {
            RolloutEventKind::Started => RolloutState::Running,
            RolloutEventKind::Promoted => RolloutState::Promoted,
            RolloutEventKind::RolledBack => RolloutState::RolledBack,
            RolloutEventKind::Aborted => RolloutState::Aborted,
        };
        self.ended_at = Some(event.at);
        self.measured = Some(measured);
        self.history.push(event);
    }
}
