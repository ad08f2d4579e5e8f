//! What is counted of results and the locks of their runs.

use serde::{Deserialize, Serialize};

use super::Histogram;

/// Which policy a run is under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The one in force.
    Control,
    /// The one that is being tried.
    Candidate,
}

impl Arm {
    pub const ALL: [Self; 2] = [Self::Control, Self::Candidate];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Candidate => "candidate",
        }
    }
}

/// The figures of one arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Results that reached their run.
    pub results: u64,
    /// Tries that found the run busy, so that the result was put off.
    pub retries: u64,
    /// Results that found the run busy at their first try.
    pub busy_at_first: u64,
    /// Of these, the ones that reached it at their second.
    pub first_retry_successes: u64,
    /// And the ones that have reached it at all.
    #[serde(default)]
    pub came_back: u64,
    /// How long results were put off for, each time.
    pub retry_delay: Histogram,
    /// From when a result came until its run was held for it.
    pub lock_wait: Histogram,
    /// From when a result came until its run had taken it into account.
    pub result_latency: Histogram,
}

impl Figures {
    /// Results that were put off and have not come back yet.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.busy_at_first.saturating_sub(self.came_back)
    }

    /// What `times` would be with the results that have not come back: each has waited, or will, for at least as long as
    /// it was put off. Without them an arm would be judged by those that got through, and look the better the fewer do.
    #[must_use]
    pub fn with_outstanding(&self, times: &Histogram) -> Histogram {
        let mut times = times.clone();
        if let Some(delay) = self.retry_delay.quantile(0.5) {
            times.observe_many(delay, self.outstanding());
        }
        times
    }

    /// Adds what another process has counted.
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

/// The figures of both arms, side by side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub control: Figures,
    pub candidate: Figures,
}

impl Measured {
    #[must_use]
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

    /// Adds what another process has counted.
    pub fn merge(&mut self, other: &Self) {
        self.control.merge(&other.control);
        self.candidate.merge(&other.candidate);
    }
}
