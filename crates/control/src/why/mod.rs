//! Explains why something waits. It only reads; the answer may be outdated by the time it is read.

mod job;
mod queued;
mod run;
mod start;

use std::sync::Arc;

use interlock_backend::locks::LockDetail;
use interlock_backend::verbs::ReadLock;
use interlock_backend::{StoreError, StoreReader};
use interlock_model::lock::{Grant, LockName};
use interlock_model::why::{Cause, CauseCode, Holder};
use interlock_model::{Timestamp, why};

use crate::definitions::Definitions;
use crate::process::Process;
use crate::worker_directory::WorkerDirectory;

/// What something waits for, at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct WhyAnswer {
    /// Its state, in one word.
    pub state: String,
    pub now: Timestamp,
    /// The first says most. Never empty.
    pub causes: Vec<Cause>,
    /// Causes beyond the bound.
    pub more: usize,
}

/// Causes, and holders of one cause, in one answer.
const CAUSES_MAX: usize = 20;
const HOLDERS_MAX: usize = 10;

/// Timeouts of one turn that are explained: each costs a few reads.
const TIMEOUTS_EXPLAINED_MAX: usize = 4;

impl WhyAnswer {
    fn new(state: impl Into<String>, now: Timestamp, mut causes: Vec<Cause>) -> Self {
        let more = causes.len().saturating_sub(CAUSES_MAX);
        causes.truncate(CAUSES_MAX);
        Self { state: state.into(), now, causes, more }
    }
}

/// Explains what runs, jobs, locks and starts wait for. It only reads.
pub struct Why {
    process: Arc<Process>,
    store: StoreReader,
    definitions: Arc<Definitions>,
    directory: Arc<WorkerDirectory>,
}

impl Why {
    pub fn new(
        process: Arc<Process>,
        definitions: Arc<Definitions>,
        directory: Arc<WorkerDirectory>,
    ) -> Self {
        Self { store: process.reader(), process, definitions, directory }
    }

    /// What a request for the lock would wait for now.
    pub async fn lock(&self, lock: &LockName) -> Result<WhyAnswer, StoreError> {
        let (now, name) = (self.process.now(), lock.resource().to_string());
        let Some(LockDetail { view, .. }) = self.store.call(ReadLock { lock: lock.clone() }).await? else {
            return Ok(WhyAnswer::new(
                "free",
                now,
                vec![Cause::new(CauseCode::Free, format!("{name} is free"))],
            ));
        };
        let since = view.holders.iter().map(|grant| grant.acquired_at).min();
        let until = view.holders.iter().map(|grant| grant.expires_at).max();
        let holder = view.holders.first().map(|grant| grant.owner.as_str());
        let held_for = since.map(|since| now.since(since)).unwrap_or_default();
        let line = match view.waiting {
            0 => "its queue is empty".to_owned(),
            1 => "1 waits in its queue".to_owned(),
            many => format!("{many} wait in its queue"),
        };
        let cause = Cause {
            since,
            holders: view.holders.iter().take(HOLDERS_MAX).map(holder_of).collect(),
            position: Some(u64::from(view.waiting) + 1),
            ..Cause::new(CauseCode::LockHeld, format!("{}, and {line}", why::lock(&name, holder, held_for)))
        };
        // Only for the first in the queue; the others also wait for those before them.
        let cause = match until {
            Some(until) if view.waiting == 0 => cause.ending(until, now),
            Some(_) | None => Cause { until, ..cause },
        };
        Ok(WhyAnswer::new("held", now, vec![cause]))
    }
}

fn holder_of(grant: &Grant) -> Holder {
    Holder { name: grant.owner.to_string(), since: Some(grant.acquired_at), until: Some(grant.expires_at) }
}
