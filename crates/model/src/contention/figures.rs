//! Measurements of results and the waits for their runs' locks.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Cohorts, Histogram};

crate::named_enum! {
    /// The policy that a run uses.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Arm {
        /// The current policy.
        Control = "control",
        /// The policy on trial.
        Candidate = "candidate",
    }
}

/// What happens to a result on its way to its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultEvent {
    /// Delivery `attempt` (from 1), `waited` after the result's arrival, found the run busy; the next is after `delay`.
    Busy { attempt: u32, waited: Duration, delay: Duration },
    /// The run was acquired for the result at delivery `attempt`, `waited` after its arrival, and a turn had processed it
    /// `took` after its arrival.
    Settled { attempt: u32, waited: Duration, took: Duration },
}

impl ResultEvent {
    /// How long after the arrival of the result it happens.
    pub fn age(&self) -> Duration {
        match *self {
            Self::Busy { waited, .. } => waited,
            Self::Settled { took, .. } => took,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Results that were applied to their run.
    pub results: u64,
    /// Deliveries that found the run busy and deferred the result.
    pub retries: u64,
    /// Results that found the run busy at their first delivery.
    pub busy_at_first: u64,
    /// Of these, results that were applied at their second delivery.
    pub first_retry_successes: u64,
    /// Of these, results that were applied at any later delivery.
    #[serde(default)]
    pub came_back: u64,
    /// The delay of each deferral.
    pub retry_delay: Histogram,
    /// From the arrival of a result until its run's lock was acquired.
    pub lock_wait: Histogram,
    /// From the arrival of a result until it was applied.
    pub result_latency: Histogram,
}

impl Figures {
    pub fn count(&mut self, event: &ResultEvent) {
        match *event {
            ResultEvent::Busy { attempt, delay, .. } => {
                self.retries += 1;
                self.busy_at_first += u64::from(attempt == 1);
                self.retry_delay.observe(milliseconds(delay));
            }
            ResultEvent::Settled { attempt, waited, took } => {
                self.results += 1;
                self.first_retry_successes += u64::from(attempt == 2);
                self.came_back += u64::from(attempt > 1);
                self.lock_wait.observe(milliseconds(waited));
                self.result_latency.observe(milliseconds(took));
            }
        }
    }

    /// Deferred results that have not been applied yet.
    pub fn outstanding(&self) -> u64 {
        self.busy_at_first.saturating_sub(self.came_back)
    }

    pub fn merge(&mut self, other: &Self) {
        self.results += other.results;
        self.retries += other.retries;
        self.busy_at_first += other.busy_at_first;
        self.first_retry_successes += other.first_retry_successes;
        self.came_back += other.came_back;
        self.retry_delay.merge(&other.retry_delay);
        self.lock_wait.merge(&other.lock_wait);
        self.result_latency.merge(&other.result_latency);
    }
}

/// What was counted of a rollout, in all and by cohort.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub control: Figures,
    pub candidate: Figures,
    /// Empty in figures of a release that kept no cohorts, and in those of an ended rollout.
    #[serde(default, skip_serializing_if = "Cohorts::is_empty")]
    pub control_cohorts: Cohorts,
    #[serde(default, skip_serializing_if = "Cohorts::is_empty")]
    pub candidate_cohorts: Cohorts,
}

impl Measured {
    pub fn of(&self, arm: Arm) -> &Figures {
        match arm {
            Arm::Control => &self.control,
            Arm::Candidate => &self.candidate,
        }
    }

    pub fn cohorts(&self, arm: Arm) -> &Cohorts {
        match arm {
            Arm::Control => &self.control_cohorts,
            Arm::Candidate => &self.candidate_cohorts,
        }
    }

    /// Counts an event of a result that arrived this long after the start of the rollout.
    pub fn count(&mut self, arm: Arm, arrived: Duration, event: &ResultEvent) {
        let (figures, cohorts) = match arm {
            Arm::Control => (&mut self.control, &mut self.control_cohorts),
            Arm::Candidate => (&mut self.candidate, &mut self.candidate_cohorts),
        };
        figures.count(event);
        cohorts.count(arrived, event);
    }

    pub fn merge(&mut self, other: &Self) {
        self.control.merge(&other.control);
        self.candidate.merge(&other.candidate);
        self.control_cohorts.merge(&other.control_cohorts);
        self.candidate_cohorts.merge(&other.candidate_cohorts);
    }

    /// Only what was counted in all, which is small enough to be kept.
    pub(super) fn without_cohorts(self) -> Self {
        Self { control_cohorts: Cohorts::default(), candidate_cohorts: Cohorts::default(), ..self }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
