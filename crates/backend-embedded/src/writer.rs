//! The one thread that writes. What piled up during a commit forms the next transaction.

use std::fmt::Display;

use interlock_backend::Effect;
use interlock_backend::local::Changes;
use interlock_model::Clock;
use rusqlite::{Connection, Error, ErrorCode};
use tokio::sync::mpsc;

use crate::connection::{roll_back, run};
use crate::log::Log;
use crate::row_cache::{RowCache, Write};
use crate::statements::Statements;
use crate::time_mark::TimeMark;
use crate::write_request::{Failure, WriteRequest};

/// The most decisions in one transaction.
const BATCH_MAX: usize = 256;

pub(crate) enum Message {
    Decide(Box<dyn WriteRequest>),
    /// Serve what is queued, and nothing after it.
    Close,
}

pub(crate) struct Writer<'c> {
    connection: &'c Connection,
    statements: Statements<'c>,
    cache: &'c RowCache,
    clock: &'c dyn Clock,
    time_mark: TimeMark,
}

impl<'c> Writer<'c> {
    pub(crate) fn new(connection: &'c Connection, cache: &'c RowCache, clock: &'c dyn Clock) -> Self {
        let (statements, time_mark) = (Statements::of_writer(connection), TimeMark::default());
        Self { connection, statements, cache, clock, time_mark }
    }

    /// Serves until the queue is closed. It does not wait for more requests: a single one is a batch.
    pub(crate) fn serve(&self, mut queue: mpsc::Receiver<Message>, log: &Log) {
        let mut messages = Vec::with_capacity(BATCH_MAX);
        while queue.blocking_recv_many(&mut messages, BATCH_MAX) > 0 {
            let mut requests = Vec::with_capacity(messages.len());
            for message in messages.drain(..) {
                match message {
                    Message::Decide(request) => requests.push(request),
                    Message::Close => queue.close(),
                }
            }
            self.settle(requests);
            if let Err(error) = log.keep_short(self.connection) {
                tracing::warn!(%error, "write-ahead log could not be emptied");
            }
        }
    }

    /// Decides `requests` in order in one transaction, and answers each when all are on the disk.
    fn settle(&self, mut requests: Vec<Box<dyn WriteRequest>>) {
        let outcome = self.transact(&mut requests);
        if let Err(failure) = &outcome {
            self.time_mark.forget();
            tracing::warn!(requests = requests.len(), effect = ?failure.effect, reason = failure.reason, "commit failed");
        }
        for request in requests {
            request.answer(outcome.as_ref().copied());
        }
    }

    fn transact(&self, requests: &mut [Box<dyn WriteRequest>]) -> Result<(), Failure> {
        roll_back(self.connection);
        run(self.connection, "BEGIN IMMEDIATE").map_err(|error| before_commit(&error))?;
        self.statements.forget_hot();
        let mut cached = Vec::new();
        self.time_mark.advance(self.connection, self.clock.now()).map_err(|error| before_commit(&error))?;
        for request in requests {
            let changes = request.decide(&self.statements, self.clock.now());
            self.apply(changes, &mut cached).inspect_err(|_| roll_back(self.connection))?;
        }
        self.write_hot().inspect_err(|_| roll_back(self.connection))?;
        run(self.connection, "COMMIT").map_err(|error| self.fail(&error))?;
        self.cache.publish(cached);
        Ok(())
    }

    /// Some errors make `SQLite` roll back by itself. What comes next must not be written outside of a transaction.
    fn check_transaction(&self) -> Result<(), Failure> {
        if self.connection.is_autocommit() {
            return Err(not_done(&"an error ended the transaction"));
        }
        Ok(())
    }

    fn write_hot(&self) -> Result<(), Failure> {
        self.check_transaction()?;
        self.statements.write_hot().map_err(|error| before_commit(&error))
    }

    fn apply(&self, changes: Changes, cached: &mut Vec<Write>) -> Result<(), Failure> {
        self.check_transaction()?;
        for (table, key, value) in changes.into_writes() {
            self.statements.write(table, &key, value.as_deref()).map_err(|error| before_commit(&error))?;
            if RowCache::holds(table) {
                cached.push((table, key, value));
            }
        }
        Ok(())
    }

    fn fail(&self, error: &Error) -> Failure {
        let effect = effect_of(error, !self.connection.is_autocommit());
        roll_back(self.connection);
        Failure { effect, reason: error.to_string() }
    }
}

/// The effect of a transaction whose commit failed with `error`.
fn effect_of(error: &Error, still_open: bool) -> Effect {
    match error.sqlite_error_code() {
        // The log did not take the last page, and without that page the others do not count.
        Some(ErrorCode::DiskFull) => Effect::StorageFull,
        // SQLite refused it before anything reached the log.
        _ if still_open => Effect::NotDone,
        // The log may be whole, and only its way to the disk uncertain: if we die now, it may count again.
        _ => Effect::Unknown,
    }
}

/// The transaction was not committed.
fn before_commit(error: &Error) -> Failure {
    Failure { effect: effect_of(error, true), reason: error.to_string() }
}

fn not_done(reason: &dyn Display) -> Failure {
    Failure { effect: Effect::NotDone, reason: reason.to_string() }
}

#[cfg(test)]
mod tests;
