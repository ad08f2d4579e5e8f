//! Measurements of results and the waits for their runs' locks.

use serde::{Deserialize, Serialize};

use super::Histogram;

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
    /// Deferred results that have not been applied yet.
    pub fn outstanding(&self) -> u64 {
        self.busy_at_first.saturating_sub(self.came_back)
    }

    /// `times` including the outstanding results, each with the median deferral as its wait. Without them, an arm would
    /// look better the fewer of its results get through.
    pub fn with_outstanding(&self, times: &Histogram) -> Histogram {
        let mut times = times.clone();
        if let Some(delay) = self.retry_delay.quantile(0.5) {
            times.observe_many(delay, self.outstanding());
        }
        times
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

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub control: Figures,
    pub candidate: Figures,
}

impl Measured {
    pub fn of(&self, arm: Arm) -> &Figures {
        match arm {
            Arm::Control => &self.control,
            Arm::Candidate => &self.candidate,
        }
    }

    pub fn of_mut(&mut self, arm: Arm) -> &mut Figures {
        match arm {
            Arm::Control => &mut self.control,
            Arm::Candidate => &mut self.candidate,
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.control.merge(&other.control);
        self.candidate.merge(&other.candidate);
    }
}
