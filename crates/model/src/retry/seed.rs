//! Seeds of jitter, derived from what is retried so that they can be derived again.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::{JobId, RunId, StepKey};

/// The source of jitter. Recorded with each use, so that the delay can be recomputed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(u64);

impl Seed {
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// For one retry of a step.
    pub fn of_retry(run: RunId, step: &StepKey, failure: u32) -> Self {
        Self::of(&format!("retry\n{run}\n{step}\n{failure}"))
    }

    /// For a start that waits for its tenant's admission lock.
    pub fn of_admission(run: RunId) -> Self {
        Self::of(&format!("admission\n{run}"))
    }

    /// For a result whose run is busy.
    pub fn of_result(job: &JobId) -> Self {
        Self::of(&format!("lock_busy\n{job}"))
    }

    /// A seed derived from this one.
    pub fn part(self, number: u64) -> Self {
        Self::of(&format!("part\n{}\n{number}", self.0))
    }

    pub fn of(name: &str) -> Self {
        let hash = blake3::hash(name.as_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hash.as_bytes()[..8]);
        // Below 2^53, so that JSON parsers that use doubles do not round it.
        Self(u64::from_le_bytes(bytes) >> 11)
    }

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
    fn a_seed_is_exact_as_a_double() {
        assert!((0..1_000).all(|number| Seed::new(number).part(number).number() < 1 << 53));
    }
}
