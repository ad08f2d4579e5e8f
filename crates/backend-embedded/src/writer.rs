//! The one thread that writes. What piled up during a commit forms the next transaction.

use std::fmt::Display;

use interlock_backend::Effect;
use interlock_backend::local::Changes;
use interlock_model::Clock;
use rusqlite::{Connection, Error, ErrorCode};
use tokio::sync::mpsc;

use crate::connection::{roll_back, run};
use crate::hot::{Hot, Write};
use crate::job::{Failure, Job};
use crate::log::Log;
use crate::statements::Statements;

pub(crate) enum Message {
    Decide(Box<dyn Job>),
    /// Take what is queued, and no more.
    Close,
}

pub(crate) struct Writer<'c> {
    connection: &'c Connection,
    statements: Statements<'c>,
    hot: &'c Hot,
    clock: &'c dyn Clock,
}

impl<'c> Writer<'c> {
    pub(crate) fn new(connection: &'c Connection, hot: &'c Hot, clock: &'c dyn Clock) -> Self {
        Self { connection, statements: Statements::new(connection), hot, clock }
    }

    /// Works until nobody can ask any more. There is no waiting for company: a lone request is a batch.
    pub(crate) fn serve(&self, mut queue: mpsc::Receiver<Message>, batch_max: usize, log: &Log) {
        let mut messages = Vec::with_capacity(batch_max);
        while queue.blocking_recv_many(&mut messages, batch_max) > 0 {
            let mut jobs = Vec::with_capacity(messages.len());
            for message in messages.drain(..) {
                match message {
                    Message::Decide(job) => jobs.push(job),
                    Message::Close => queue.close(),
                }
            }
            self.settle(jobs);
            if let Err(error) = log.keep_short(self.connection) {
                tracing::warn!(%error, "the log could not be emptied");
            }
        }
    }

    /// Decides `jobs` in order in one transaction, and answers each when all are on the disk.
    fn settle(&self, mut jobs: Vec<Box<dyn Job>>) {
        let outcome = self.transact(&mut jobs);
        if let Err(failure) = &outcome {
            tracing::warn!(requests = jobs.len(), effect = ?failure.effect, reason = failure.reason, "a commit failed");
        }
        for job in jobs {
            job.answer(outcome.as_ref().copied());
        }
    }

    fn transact(&self, jobs: &mut [Box<dyn Job>]) -> Result<(), Failure> {
        roll_back(self.connection);
        run(self.connection, "BEGIN IMMEDIATE").map_err(|error| not_done(&error))?;
        let mut hot = Vec::new();
        for job in jobs {
            let changes = job.decide(&self.statements, self.clock.now());
            self.apply(changes, &mut hot).inspect_err(|_| roll_back(self.connection))?;
        }
        run(self.connection, "COMMIT").map_err(|error| self.give_up(&error))?;
        self.hot.publish(hot);
        Ok(())
    }

    fn apply(&self, changes: Changes, hot: &mut Vec<Write>) -> Result<(), Failure> {
        // Some errors make SQLite roll back by itself. What comes next must not be written outside of a transaction.
        if self.connection.is_autocommit() {
            return Err(not_done(&"an error ended the transaction"));
        }
        for (table, key, value) in changes.into_writes() {
            self.statements.write(table, &key, value.as_deref()).map_err(|error| not_done(&error))?;
            if Hot::holds(table) {
                hot.push((table, key, value));
            }
        }
        Ok(())
    }

    fn give_up(&self, error: &Error) -> Failure {
        let effect = effect_of(error, !self.connection.is_autocommit());
        roll_back(self.connection);
        Failure { effect, reason: error.to_string() }
    }
}

/// What became of a transaction whose commit failed with `error`.
fn effect_of(error: &Error, still_open: bool) -> Effect {
    match error.sqlite_error_code() {
        // It was turned down before anything reached the log.
        _ if still_open => Effect::NotDone,
        // The log did not take the last page, and without that page the others do not count.
        Some(ErrorCode::DiskFull) => Effect::NotDone,
        // The log may be whole, and only its way to the disk uncertain: if we die now, it may count again.
        _ => Effect::Unknown,
    }
}

fn not_done(reason: &dyn Display) -> Failure {
    Failure { effect: Effect::NotDone, reason: reason.to_string() }
}

#[cfg(test)]
mod tests;
