//! The latest time that the store has shown, kept in the file. After a restart the clock continues from there, even if the
//! wall clock was set back meanwhile: what was to expire by then has expired.

use std::cell::Cell;
use std::time::Duration;

use interlock_model::Timestamp;
use rusqlite::{Connection, OptionalExtension as _};

/// How far the mark is ahead of the time, so that not every transaction must move it.
const AHEAD: Duration = Duration::from_secs(1);

const KEY: &str = "clock";

/// Moves the mark within the transactions that need it.
#[derive(Debug, Default)]
pub(crate) struct TimeMark {
    /// Written and committed, or about to be.
    at: Cell<Timestamp>,
}

/// The mark of the last process.
pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    let find = "SELECT CAST(value AS INTEGER) FROM system WHERE key = ?1";
    let mark: Option<i64> = connection.query_row(find, [KEY], |row| row.get(0)).optional()?;
    Ok(mark.and_then(|mark| u64::try_from(mark).ok()).map(Timestamp::from_millis))
}

impl TimeMark {
    /// Moves the mark in the open transaction, if `now` has reached it.
    pub(crate) fn advance(&self, connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        if now < self.at.get() {
            return Ok(());
        }
        let mark = now + AHEAD;
        let write = "INSERT INTO system (key, value) VALUES (?1, ?2)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        connection.prepare_cached(write)?.execute((KEY, mark.as_millis().to_string()))?;
        self.at.set(mark);
        Ok(())
    }

    /// The transaction did not happen.
    pub(crate) fn forget(&self) {
        self.at.set(Timestamp::ZERO);
    }
}
