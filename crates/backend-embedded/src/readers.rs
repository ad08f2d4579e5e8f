//! The threads that read, each from a snapshot of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use interlock_backend::local::View;
use interlock_backend::{Effect, StoreError};
use interlock_model::{Clock, Timestamp};
use rusqlite::Connection;
use tokio::sync::mpsc;

use crate::connection::{roll_back, run};
use crate::error::{panicked, unavailable};
use crate::log::Log;
use crate::statements::Statements;

/// A read, with where its answer goes.
pub(crate) type Look = Box<dyn FnOnce(&Reader<'_>) + Send>;

pub(crate) enum Message {
    Look(Look),
    /// Serve what is queued, and nothing after it.
    Close,
}

/// One queue for all readers: a slow read keeps one of them busy and delays no other.
pub(crate) type Queue = Arc<Mutex<mpsc::Receiver<Message>>>;

pub(crate) struct Reader<'c> {
    connection: &'c Connection,
    statements: Statements<'c>,
    clock: &'c dyn Clock,
    log: &'c Log,
}

impl<'c> Reader<'c> {
    pub(crate) fn new(connection: &'c Connection, clock: &'c dyn Clock, log: &'c Log) -> Self {
        Self { connection, statements: Statements::new(connection), clock, log }
    }

    /// Serves until the queue is closed.
    pub(crate) fn serve(&self, queue: &Queue) {
        while let Some(look) = next(queue) {
            look(self);
        }
    }

    /// Runs `look` on a snapshot taken now, which is therefore as new as every answer given. It is released at once:
    /// an open snapshot keeps the log from restarting.
    pub(crate) fn look<R>(
        &self,
        action: &'static str,
        look: impl FnOnce(&dyn View, Timestamp) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let _reading = self.log.reading();
        roll_back(self.connection);
        run(self.connection, "BEGIN").map_err(|error| unavailable(action, Effect::NotDone, &error))?;
        let view = self.statements.view(action);
        let answer = catch_unwind(AssertUnwindSafe(|| look(&view, self.clock.now())))
            .unwrap_or_else(|panic| Err(panicked(action, &*panic)));
        roll_back(self.connection);
        answer
    }
}

/// Waits for the next read; the other readers wait for their turn to wait.
fn next(queue: &Queue) -> Option<Look> {
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match queue.blocking_recv()? {
            Message::Look(look) => return Some(look),
            Message::Close => queue.close(),
        }
    }
}
