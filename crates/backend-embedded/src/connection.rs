//! Connections to the file, and the one place where their pragmas are chosen.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// What the log is cut back to after it had to grow.
const LOG_BYTES_MAX: u32 = 64 << 20;
/// Negative: kibibytes rather than pages. The working set is larger than this; the operating system holds the rest.
const WRITER_CACHE: i32 = -16_000;
const READER_CACHE: i32 = -4_000;
/// A reader waits only while another connection recovers the log.
const READER_PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn writer(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let connection = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // This is the only writer. If another process writes, fail at once.
    connection.busy_timeout(Duration::ZERO)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // An answer outlives the loss of power. Under group commit this is nearly free.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // A thread of its own does that.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES_MAX)?;
    connection.pragma_update(None, "cache_size", WRITER_CACHE)?;
    // Damage within a page is noticed when the page is read.
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

/// Moves the log into the file, while another connection writes.
pub(crate) fn log_mover(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES_MAX)?;
    connection.pragma_update(None, "cache_size", READER_CACHE)?;
    Ok(connection)
}

pub(crate) fn reader(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(READER_PATIENCE)?;
    connection.pragma_update(None, "cache_size", READER_CACHE)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

/// Runs one of the few statements that frame a transaction.
pub(crate) fn run(connection: &Connection, statement: &'static str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute([]).map(drop)
}

/// Leaves no transaction open. If even that fails, the next one finds it open and tries again.
pub(crate) fn roll_back(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    if let Err(error) = run(connection, "ROLLBACK") {
        tracing::warn!(%error, "a transaction could not be rolled back");
    }
}
