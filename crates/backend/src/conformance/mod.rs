//! The tests that every backend must pass: one function a rule, and its name states the rule.
//!
//! A backend's test file is one line: [`conformance_suite!`](crate::conformance_suite) with what makes a fresh store.

pub mod admission;
pub mod approvals;
pub(crate) mod clocks;
pub mod dead_letters;
pub mod deferred_results;
pub mod deliveries;
pub mod documents;
pub mod fences;
pub mod held_approvals;
pub mod inspection;
pub mod job_leases;
pub mod jobs;
pub mod keys;
pub mod limits;
pub mod lock_queues;
mod lock_requests;
pub mod locks;
pub mod memory;
pub mod policy_holds;
pub mod queues;
pub mod quotas;
pub mod reconcile;
pub mod registry;
pub mod reservations;
pub mod runs;
mod scene;
pub mod second_results;
mod suite;
pub mod values;
pub mod versus_memory;
pub mod workers;
pub mod workflows;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use interlock_model::{Clock, Timestamp};

use self::inspection::LocalRows;
use crate::Store;
use crate::clock::ManualClock;

/// What a backend brings to the suite: a fresh store, and a way to let time pass on the clock that it trusts.
#[async_trait]
pub trait Subject: Send + Sync {
    fn store(&self) -> Store;
    async fn elapse(&self, time: Duration);
    /// Closes the store and opens what it kept. A store that keeps nothing comes back as it is.
    async fn reopen(&mut self);
}

/// A store on a clock that the test moves.
pub struct OnManualClock<F> {
    clock: Arc<ManualClock>,
    store: Option<Arc<dyn LocalRows>>,
    open: F,
}

impl<F: Fn(Arc<dyn Clock>) -> Arc<dyn LocalRows> + Send + Sync> OnManualClock<F> {
    /// `open` opens the store, again after it was closed.
    pub fn new(open: F) -> Self {
        Self::on(Arc::new(ManualClock::starting_at(Timestamp::from_millis(1_794_700_800_000))), open)
    }

    fn on(clock: Arc<ManualClock>, open: F) -> Self {
        Self { store: Some(open(clock.clone())), clock, open }
    }

    pub fn clock(&self) -> Arc<ManualClock> {
        self.clock.clone()
    }

    fn local_rows(&self) -> Arc<dyn LocalRows> {
        self.store.clone().expect("the store is open between two reopenings")
    }
}

#[async_trait]
impl<F: Fn(Arc<dyn Clock>) -> Arc<dyn LocalRows> + Send + Sync> Subject for OnManualClock<F> {
    fn store(&self) -> Store {
        Store::new(self.local_rows())
    }

    async fn elapse(&self, time: Duration) {
        self.clock.advance(time);
    }

    async fn reopen(&mut self) {
        self.store = None;
        self.store = Some((self.open)(self.clock.clone()));
    }
}
