use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::clock::SystemClock;
use interlock_backend::local::{Executor, Table};
use interlock_backend::locks::{ReadLock, ReleaseLock};
use interlock_backend::{Effect, Store, StoreError};
use interlock_backend_embedded::OpenError;
use interlock_model::Clock as _;
use rusqlite::Connection;

use crate::rows::{ask, door, fresh, get, open, put};

const HOUR: Duration = Duration::from_hours(1);

#[tokio::test]
async fn rows_survive_closing_and_opening_again() {
    let (tables, folder) = fresh();
    put(&tables, Table::Tenants, "acme", 1).await.unwrap();
    put(&tables, Table::Heads, "acme/run", 2).await.unwrap();
    drop(tables);
    let tables = open(folder.path()).unwrap();
    assert_eq!(get(&tables, Table::Tenants, "acme").await, Some(1));
    assert_eq!(get(&tables, Table::Heads, "acme/run").await, Some(2));
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_left_alone() {
    let (tables, folder) = fresh();
    for number in 0..500 {
        put(&tables, Table::Heads, &format!("acme/run-{number}"), number).await.unwrap();
    }
    tables.close().await;
    let file = folder.path().join("interlock.db");
    let whole = fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    // The header of a page in the middle of the file.
    let page = whole.len() / 2 / 4_096 * 4_096;
    damaged[page..page + 8].fill(0xff);
    fs::write(&file, &damaged).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("restore it from a backup"), "{error}");
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    fs::write(&file, &damaged).unwrap();
    assert_eq!(fs::read(&file).unwrap(), damaged);
    fs::write(&file, &whole).unwrap();
    assert_eq!(get(&open(folder.path()).unwrap(), Table::Heads, "acme/run-7").await, Some(7));
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_files_of_the_database() {
    use std::os::unix::fs::PermissionsExt as _;

    let (tables, folder) = fresh();
    put(&tables, Table::Tenants, "acme", 1).await.unwrap();
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
    assert!(files.iter().any(|file| file.file_name() == "interlock.db-wal"), "{files:?}");
    for file in files {
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file:?} has the mode {mode:o}");
    }
}

#[tokio::test]
async fn who_stood_in_line_with_a_process_that_is_gone_stands_there_no_more_and_holds_stay() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let opened = interlock_backend_embedded::open(folder.path(), Arc::new(SystemClock));
        Store::new(Arc::new(opened.unwrap()))
    };
    let store = open();
    let _ = store.call(ask("ann", HOUR, None)).await.unwrap();
    let _ = store.call(ask("bob", HOUR, Some(HOUR))).await.unwrap();
    assert_eq!(store.call(ReadLock { lock: door() }).await.unwrap().unwrap().line.len(), 1);
    drop(store);
    let store = open();
    let lock = store.call(ReadLock { lock: door() }).await.unwrap().unwrap();
    assert_eq!((lock.view.holders[0].owner.as_str(), lock.line.len()), ("ann", 0));
    let released =
        store.call(ReleaseLock { lock: door(), token: "call-of-ann".parse().unwrap() }).await.unwrap();
    assert_eq!(released.next, None, "waiters of former processes are dropped");
}

#[tokio::test]
async fn a_second_store_in_a_folder_is_refused_until_the_first_is_gone() {
    let (first, folder) = fresh();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("is in use by another Interlock process"), "{error}");
    drop(first);
    let second = open(folder.path()).unwrap();
    second.close().await;
    open(folder.path()).unwrap();
}

#[tokio::test]
async fn a_folder_is_free_at_once_while_other_processes_are_being_started() {
    // Until it runs its program, a child has a copy of every file of its parent, the lock among them.
    let starting = std::thread::spawn(|| {
        for _ in 0..200 {
            std::process::Command::new("true").status().unwrap();
        }
    });
    let (first, folder) = fresh();
    drop(first);
    while !starting.is_finished() {
        open(folder.path()).unwrap().close().await;
    }
    starting.join().unwrap();
}

#[test]
fn a_file_of_a_newer_format_is_refused_and_left_alone() {
    let (tables, folder) = fresh();
    drop(tables);
    let file = folder.path().join("interlock.db");
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 1000).unwrap();
    let error = refused(folder.path());
    assert!(matches!(error, OpenError::Newer { found: 1000, known } if known < 1000), "{error}");
    assert!(error.to_string().contains("format 1000"), "{error}");
}

#[test]
fn a_foreign_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let other = Connection::open(folder.path().join("interlock.db")).unwrap();
    other.execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    drop(other);
    let error = refused(folder.path());
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert!(error.to_string().contains("is not a database of Interlock"), "{error}");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("interlock.db"), "Dear diary, ".repeat(1000)).unwrap();
    let error = refused(folder.path());
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
}

/// Why the folder did not open, after a look that its file is as it was.
fn refused(folder: &Path) -> OpenError {
    let file = folder.join("interlock.db");
    let before = fs::read(&file).unwrap();
    let error = open(folder).unwrap_err();
    assert!(fs::read(&file).unwrap() == before, "the file was touched");
    error
}

#[test]
fn a_file_whose_maker_died_before_the_first_table_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let made = Connection::open(folder.path().join("interlock.db")).unwrap();
    made.pragma_update(None, "journal_mode", "WAL").unwrap();
    drop(made);
    open(folder.path()).unwrap();
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a-file");
    fs::write(&file, "").unwrap();
    let error = open(&file.join("data")).unwrap_err();
    assert!(matches!(error, OpenError::Folder { .. }), "{error}");
    assert!(error.to_string().contains("a-file"), "{error}");
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_enter_the_folder() {
    use std::os::unix::fs::PermissionsExt;

    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("made/for/us");
    open(&folder).unwrap();
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn run_leases_of_former_processes_have_expired_after_opening() {
    let (tables, folder) = fresh();
    put(&tables, Table::JobLeases, "acme/job", 1).await.unwrap();
    drop(tables);
    let file = folder.path().join("interlock.db");
    let lease =
        |expires_at: u64| format!(r#"{{"holder":"h","fence":7,"expires_at":{expires_at},"tries":2}}"#);
    let in_an_hour = (SystemClock.now() + HOUR).as_millis();
    let database = Connection::open(&file).unwrap();
    for (key, expires_at) in [("acme/live", in_an_hour), ("acme/over", 5)] {
        database.execute("INSERT INTO run_leases VALUES (?1, ?2)", [key, &lease(expires_at)]).unwrap();
    }
    drop(database);
    let tables = open(folder.path()).unwrap();
    assert_eq!(get(&tables, Table::JobLeases, "acme/job").await, Some(1), "workers are other processes");
    let database = Connection::open(&file).unwrap();
    let row = |key: &str| -> (String, i64) {
        let read = "SELECT value, value ->> 'expires_at' FROM run_leases WHERE key = ?1";
        database.query_row(read, [key], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    let (live, expired_at) = row("acme/live");
    let expired_at = u64::try_from(expired_at).unwrap();
    assert!(expired_at < in_an_hour, "{live}");
    assert_eq!(live, lease(expired_at), "the rest says how often the run was tried");
    assert_eq!(row("acme/over").0, lease(5));
}

#[tokio::test]
async fn a_closed_store_refuses_and_says_that_nothing_happened() {
    let (tables, _folder) = fresh();
    tables.close().await;
    let not_done = |answer: Result<(), StoreError>| {
        matches!(answer, Err(StoreError::Unavailable { effect: Effect::NotDone, .. }))
    };
    assert!(not_done(put(&tables, Table::Heads, "a/1", 1).await));
    assert!(not_done(tables.read("look", |_, _| Ok(())).await));
    tables.close().await;
}

#[tokio::test]
async fn closing_keeps_what_was_asked_before_it_and_empties_the_log() {
    let (tables, folder) = fresh();
    let (one, two, ()) = tokio::join!(
        put(&tables, Table::Heads, "a/1", 1),
        put(&tables, Table::Heads, "a/2", 2),
        tables.close()
    );
    assert_eq!((one, two), (Ok(()), Ok(())));
    let log = fs::metadata(folder.path().join("interlock.db-wal")).map_or(0, |log| log.len());
    assert_eq!(log, 0);
    let tables = open(folder.path()).unwrap();
    assert_eq!(get(&tables, Table::Heads, "a/2").await, Some(2));
}
