//! Whole runs between two turns. The version tells whether what is kept is still right; the commit checks it again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use interlock_model::step::StepRun;
use interlock_model::{RunId, StepKey};

type Steps = BTreeMap<StepKey, StepRun>;

/// The steps of runs that were advanced a moment ago: a fan-out of thousands is not read again for every result.
#[derive(Debug)]
pub(super) struct RunCache {
    kept: Mutex<VecDeque<(RunId, u64, Steps)>>,
    max: usize,
}

impl RunCache {
    pub(super) fn new(max: usize) -> Self {
        Self { kept: Mutex::default(), max }
    }

    /// The steps of `run` at `version`, which leave the cache with it.
    pub(super) fn take(&self, run: RunId, version: u64) -> Option<Steps> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let position = kept.iter().position(|(id, ..)| *id == run)?;
        let (_, found, steps) = kept.remove(position)?;
        (found == version).then_some(steps)
    }

    pub(super) fn keep(&self, run: RunId, version: u64, steps: Steps) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(id, ..)| *id != run);
        kept.push_back((run, version, steps));
        while kept.len() > self.max {
            kept.pop_front();
        }
    }
}
