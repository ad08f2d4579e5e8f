//! Locks, for users and for our own stages: the record is in hidden keys, the holder in one that people read.

use interlock_backend::Verb;
use interlock_backend::locks::{Acquired, Turn};
use interlock_backend::verbs::{AcquireLock, ForceReleaseLock, ReleaseLock, RenewLock};
use interlock_model::lock::{Grant, LockEnd};

use crate::encode;
use crate::known::Known;
use crate::script::Arguments;
use crate::store::Scripted;

impl Scripted for AcquireLock {
    fn learn(&self, turn: &Turn<Acquired>, known: &Known) {
        if let Acquired::Granted(grant) = &turn.answer {
            known.saw_fence(grant.fence);
        }
    }
}

impl Scripted for RenewLock {
    fn learn(&self, turn: &Turn<Grant>, known: &Known) {
        known.saw_fence(turn.answer.fence);
    }
}

/// The same step as a release, with another end.
impl Scripted for ForceReleaseLock {
    const SCRIPT: &'static str = ReleaseLock::NAME;

    fn arguments(&self) -> Vec<u8> {
        let end = LockEnd::ForceReleased { by: self.by.clone(), reason: self.reason.clone() };
        Arguments::default().with("token", &self.expected).with("ending", encode::json(&end)).packed()
    }
}
