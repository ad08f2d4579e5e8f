//! A store on a clock that the test moves.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use interlock_model::{Clock, Timestamp};

use super::Subject;
use super::inspection::LocalRows;
use crate::Store;
use crate::clock::ManualClock;

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

    pub(super) fn on(clock: Arc<ManualClock>, open: F) -> Self {
        Self { store: Some(open(clock.clone())), clock, open }
    }

    pub fn clock(&self) -> Arc<ManualClock> {
        self.clock.clone()
    }

    pub(super) fn local_rows(&self) -> Arc<dyn LocalRows> {
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
