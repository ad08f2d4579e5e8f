//! Whether the file is damaged: better refused at the start than served until a request meets the damage.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use rusqlite::{Connection, Error, ErrorCode};

/// How long the check may take. Of a large file, only a part is checked.
const CHECK_MAX: Duration = Duration::from_secs(5);

/// What is wrong with the pages of the file, if anything is.
pub(crate) fn find(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let interrupt = connection.get_interrupt_handle();
    let (done, is_done) = channel::<()>();
    let checked = std::thread::scope(|scope| {
        scope.spawn(move || {
            if is_done.recv_timeout(CHECK_MAX) == Err(RecvTimeoutError::Timeout) {
                interrupt.interrupt();
            }
        });
        let checked = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        drop(done);
        checked
    });
    match checked {
        Ok(verdict) if verdict == "ok" => Ok(None),
        Ok(verdict) => Ok(Some(verdict)),
        Err(error) => judge(error),
    }
}

fn judge(error: Error) -> rusqlite::Result<Option<String>> {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => {
            tracing::info!("the database is large: only a part of it was checked for damage");
            Ok(None)
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Ok(Some(error.to_string())),
        _ => Err(error),
    }
}
