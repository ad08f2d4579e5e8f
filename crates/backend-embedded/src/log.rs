//! The write-ahead log, and how it stays short: a thread moves it into the file beside the commits.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use rusqlite::Connection;

/// Pages of the log before they are moved into the file: 16 MiB. Seldom, but the log stays small enough for readers to look
/// things up in.
const MOVED_FROM_PAGES: u32 = 4_000;

/// Pages of the log at which commits wait until it is empty. The thread has had the time of three logs until then.
const PAGES_MAX: u32 = 4 * MOVED_FROM_PAGES;

/// `SQLite` restarts the log only at a moment without readers of older snapshots. Where reads overlap, there is no such
/// moment: then new reads are held off until there is.
#[derive(Debug)]
pub(crate) struct Log {
    moved_from: u32,
    pages_max: u32,
    reads: RwLock<()>,
    /// Room for one request: a second one would find the same log.
    wanted: SyncSender<()>,
}

impl Log {
    /// The log, and what asks for it to be moved.
    pub(crate) fn new() -> (Self, Receiver<()>) {
        let (wanted, asked) = sync_channel(1);
        (Self { moved_from: MOVED_FROM_PAGES, pages_max: PAGES_MAX, reads: RwLock::default(), wanted }, asked)
    }

    /// Kept for as long as a snapshot is.
    pub(crate) fn reading(&self) -> RwLockReadGuard<'_, ()> {
        self.reads.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// If the log is long, asks for it to be moved. If it is too long for that, waits for the reads of this moment, holds
    /// off new ones, and empties it.
    pub(crate) fn keep_short(&self, connection: &Connection) -> rusqlite::Result<()> {
        let pages = pages(connection, "PRAGMA wal_checkpoint(NOOP)")?;
        if pages > self.pages_max {
            let _no_reads = self.reads.write().unwrap_or_else(PoisonError::into_inner);
            self::pages(connection, "PRAGMA wal_checkpoint(TRUNCATE)")?;
        } else if pages > self.moved_from {
            // If one is asked for already, or the thread has ended, nothing is to be done.
            let _ = self.wanted.try_send(());
        }
        Ok(())
    }
}

/// Moves the log whenever it is asked to, until nothing can ask any more. A log that is read from or written to meanwhile is
/// moved as far as it may be.
pub(crate) fn move_when_asked(connection: &Connection, asked: &Receiver<()>) {
    while asked.recv().is_ok() {
        if let Err(error) = pages(connection, "PRAGMA wal_checkpoint(PASSIVE)") {
            tracing::warn!(%error, "the write-ahead log could not be moved; commits will wait for it");
        }
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
        let log = Log { pages_max: 10, ..Log::new().0 };
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
        let (log, asked) = Log::new();
        let reading = log.reading();
        log.keep_short(&writer).unwrap();
        drop(reading);
        assert!(pages(&writer, "PRAGMA wal_checkpoint(NOOP)").unwrap() > 0);
        assert!(asked.try_recv().is_err());
    }

    #[test]
    fn a_long_log_is_moved_beside_the_commits_and_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log.db");
        let writer = connection::writer(&file).unwrap();
        writer.execute_batch("CREATE TABLE numbers (number INTEGER)").unwrap();
        let (log, asked) = Log::new();
        let log = Log { moved_from: 10, ..log };
        for number in 0..20 {
            writer.execute("INSERT INTO numbers VALUES (?1)", [number]).unwrap();
            log.keep_short(&writer).unwrap();
        }
        assert!(pages(&writer, "PRAGMA wal_checkpoint(NOOP)").unwrap() > 10, "no commit has moved it");
        drop(log);
        // One request, however often it was asked for.
        move_when_asked(&connection::log_mover(&file).unwrap(), &asked);
        writer.execute("INSERT INTO numbers VALUES (20)", []).unwrap();
        assert!(pages(&writer, "PRAGMA wal_checkpoint(NOOP)").unwrap() <= 2, "the log began anew");
    }
}
