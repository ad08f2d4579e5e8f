//! The write-ahead log, and how it stays short under continuous reads.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use rusqlite::Connection;

use crate::connection::CHECKPOINT_PAGES;

/// `SQLite` restarts the log only at a moment without readers of older snapshots. Where reads overlap, there is no such
/// moment: then new reads are held off until there is.
#[derive(Debug)]
pub(crate) struct Log {
    pages_max: u32,
    reads: RwLock<()>,
}

impl Default for Log {
    fn default() -> Self {
        Self { pages_max: 2 * CHECKPOINT_PAGES, reads: RwLock::default() }
    }
}

impl Log {
    /// Kept for as long as a snapshot is.
    pub(crate) fn reading(&self) -> RwLockReadGuard<'_, ()> {
        self.reads.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// If the log is too long, waits for the reads of this moment, holds off new ones, and empties it.
    pub(crate) fn keep_short(&self, connection: &Connection) -> rusqlite::Result<()> {
        if pages(connection, "PRAGMA wal_checkpoint(NOOP)")? > self.pages_max {
            let _no_reads = self.reads.write().unwrap_or_else(PoisonError::into_inner);
            pages(connection, "PRAGMA wal_checkpoint(TRUNCATE)")?;
        }
        Ok(())
    }
}

/// The pages that are in the log after `checkpoint`.
fn pages(connection: &Connection, checkpoint: &'static str) -> rusqlite::Result<u32> {
    // -1 stands for no log at all.
    let pages: i64 = connection.prepare_cached(checkpoint)?.query_row([], |row| row.get(1))?;
    Ok(u32::try_from(pages).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::connection;

    #[test]
    fn the_log_is_emptied_as_soon_as_the_reads_of_the_moment_have_ended() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log.db");
        let writer = connection::writer(&file).unwrap();
        writer.execute_batch("CREATE TABLE numbers (number INTEGER)").unwrap();
        let log = Log { pages_max: 10, ..Log::default() };
        let (holds, held) = mpsc::channel();
        let (finish, finished) = mpsc::channel();
        thread::scope(|scope| {
            let (log, reader) = (&log, connection::reader(&file).unwrap());
            scope.spawn(move || {
                let _reading = log.reading();
                reader.execute_batch("BEGIN; SELECT * FROM numbers").unwrap();
                holds.send(()).unwrap();
                finished.recv().unwrap();
                reader.execute_batch("COMMIT").unwrap();
            });
            held.recv().unwrap();
            for number in 0..20 {
                writer.execute("INSERT INTO numbers VALUES (?1)", [number]).unwrap();
            }
            assert!(pages(&writer, "PRAGMA wal_checkpoint(PASSIVE)").unwrap() > 10);
            finish.send(()).unwrap();
            log.keep_short(&writer).unwrap();
        });
        assert_eq!(pages(&writer, "PRAGMA wal_checkpoint(NOOP)").unwrap(), 0);
    }

    #[test]
    fn a_short_log_is_left_to_the_commits() {
        let folder = tempfile::tempdir().unwrap();
        let writer = connection::writer(&folder.path().join("log.db")).unwrap();
        writer.execute_batch("CREATE TABLE numbers (number INTEGER)").unwrap();
        let log = Log::default();
        let reading = log.reading();
        log.keep_short(&writer).unwrap();
        drop(reading);
        assert!(pages(&writer, "PRAGMA wal_checkpoint(NOOP)").unwrap() > 0);
    }
}
