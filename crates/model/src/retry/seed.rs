//! Where jitter comes from: a number that is derived from what is tried again, so that it can be derived once more.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::{JobId, RunId, StepKey};

/// Where jitter comes from. Written down beside each use, so that the delay can be computed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(u64);

impl Seed {
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// The seed of one retry of a step: two contenders never share one by accident.
    #[must_use]
    pub fn of_retry(run: RunId, step: &StepKey, failure: u32) -> Self {
        Self::of(&format!("retry\n{run}\n{step}\n{failure}"))
    }

    /// Of a start that waits for its tenant's admission lock.
    #[must_use]
    pub fn of_admission(run: RunId) -> Self {
        Self::of(&format!("admission\n{run}"))
    }

    /// Of a result whose run is busy.
    #[must_use]
    pub fn of_result(job: &JobId) -> Self {
        Self::of(&format!("lock_busy\n{job}"))
    }

    /// Of one of several things that follow from this seed, each with a number.
    #[must_use]
    pub fn part(self, number: u64) -> Self {
        Self::of(&format!("part\n{}\n{number}", self.0))
    }

    /// Of anything that has a name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let hash = blake3::hash(name.as_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hash.as_bytes()[..8]);
        // Kept below 2^53, so that the JSON in which it is recorded shows it unrounded everywhere.
        Self(u64::from_le_bytes(bytes) >> 11)
    }

    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    pub(super) fn rng(self) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_steps_of_a_run_get_different_seeds() {
        let run = RunId::new(crate::Timestamp::ZERO, [1; 10]);
        let seed = |item| Seed::of_retry(run, &StepKey::item(&"fetch".parse().unwrap(), item), 1);
        assert_ne!(seed(0), seed(1));
    }

    #[test]
    fn a_seed_survives_a_reader_that_knows_only_doubles() {
        assert!((0..1_000).all(|number| Seed::new(number).part(number).number() < 1 << 53));
    }
}
