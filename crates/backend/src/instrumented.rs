//! Telemetry of the store, written once over all verbs: how each call ended, and how long it took.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::verbs::NAMES;
use crate::{Effect, StoreError};

interlock_model::named_enum! {
    /// How a call ended.
    pub enum CallOutcome {
        Ok = "ok",
        NotFound = "not_found",
        /// Rejected because of a stale fence.
        Fenced = "fenced",
        Conflict = "conflict",
        /// No answer.
        Unavailable = "unavailable",
        /// A row cannot be read.
        Damaged = "damaged",
    }
}

impl CallOutcome {
    fn of<T>(answer: &Result<T, StoreError>) -> Self {
        match answer {
            Ok(_) => Self::Ok,
            Err(StoreError::NotFound { .. }) => Self::NotFound,
            Err(StoreError::Fenced { .. }) => Self::Fenced,
            Err(StoreError::Conflict(_) | StoreError::QuotaReached { .. }) => Self::Conflict,
            Err(StoreError::Unavailable { .. }) => Self::Unavailable,
            Err(StoreError::Damaged { .. }) => Self::Damaged,
        }
    }
}

/// Upper bounds of the buckets, in seconds.
const BOUNDS: [f64; 12] = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// The calls of one verb since the process began.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct VerbCalls {
    outcomes: [u64; CallOutcome::ALL.len()],
    buckets: [u64; BOUNDS.len() + 1],
    /// The sum of their durations.
    pub seconds: f64,
}

impl VerbCalls {
    pub fn count(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    pub fn outcomes(&self) -> impl Iterator<Item = (CallOutcome, u64)> {
        CallOutcome::ALL.into_iter().zip(self.outcomes)
    }

    /// The upper bound and count of each bucket; the last bound is infinite.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        BOUNDS.into_iter().chain([f64::INFINITY]).zip(self.buckets)
    }
}

/// The calls of this process, by verb. Every verb has its entry from the start, so that a call allocates nothing.
#[derive(Debug)]
pub struct StoreCalls {
    verbs: BTreeMap<&'static str, Mutex<VerbCalls>>,
    is_full: AtomicBool,
}

impl Default for StoreCalls {
    fn default() -> Self {
        let verbs = NAMES.iter().map(|name| (*name, Mutex::default())).collect();
        Self { verbs, is_full: AtomicBool::new(false) }
    }
}

impl StoreCalls {
    /// Counts a call that has ended. A call that its caller stopped waiting for is not counted.
    pub(crate) fn count<T>(&self, verb: &str, answer: &Result<T, StoreError>, took: Duration) {
        let Some(calls) = self.verbs.get(verb) else { return };
        let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        calls.outcomes[CallOutcome::of(answer) as usize] += 1;
        calls.buckets[bucket] += 1;
        calls.seconds += seconds;
    }

    /// Remembers whether the last write that says so found room.
    pub(crate) fn note_room<T>(&self, writes: bool, answer: &Result<T, StoreError>) {
        match answer {
            Ok(_) if writes => self.is_full.store(false, Ordering::Relaxed),
            Err(StoreError::Unavailable { effect: Effect::StorageFull, .. }) => {
                self.is_full.store(true, Ordering::Relaxed);
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Whether the last write found no room.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// The verbs that were called.
    pub fn counted(&self) -> Vec<(&'static str, VerbCalls)> {
        let calls = |verb: &Mutex<VerbCalls>| *verb.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.verbs.iter().map(|(name, verb)| (*name, calls(verb)));
        all.filter(|(_, calls)| calls.count() > 0).collect()
    }
}
