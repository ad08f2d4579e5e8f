//! A PostgreSQL server starts, runs scripts, and ends with its guard.

use std::path::PathBuf;

use interlock_servers::{Postgres, PostgresDatabase};

#[tokio::test]
async fn a_script_is_answered_row_by_row() {
    let database = PostgresDatabase::create().await.unwrap();
    let script = "CREATE TABLE pairs (name text, number int);
        INSERT INTO pairs VALUES ('one', 1), ('two', 2);
        SELECT * FROM pairs ORDER BY number;";
    assert_eq!(database.script(script).await.unwrap(), "one|1\ntwo|2");
}

#[tokio::test]
async fn an_error_ends_the_script_and_is_returned() {
    let database = PostgresDatabase::create().await.unwrap();
    let script = "SELECT 1 / 0; CREATE TABLE after_the_error ();";
    let error = database.script(script).await.unwrap_err().to_string();
    assert!(error.contains("division by zero"), "{error}");
    assert_eq!(database.script("SELECT to_regclass('after_the_error') IS NULL").await.unwrap(), "t");
}

#[tokio::test]
async fn databases_of_one_server_do_not_share_tables() {
    let one = PostgresDatabase::create().await.unwrap();
    let other = PostgresDatabase::create().await.unwrap();
    one.script("CREATE TABLE reports ()").await.unwrap();
    other.script("SELECT * FROM reports").await.unwrap_err();
}

#[tokio::test]
async fn it_listens_on_loopback_only_and_on_no_socket_file() {
    let database = PostgresDatabase::create().await.unwrap();
    let settings = "SELECT current_setting('listen_addresses'), current_setting('unix_socket_directories')";
    assert_eq!(database.script(settings).await.unwrap(), "127.0.0.1|");
    assert!(database.url().starts_with("postgresql://postgres@127.0.0.1:"), "{}", database.url());
}

#[tokio::test]
async fn a_postgres_ends_with_its_guard_and_leaves_no_shared_memory() {
    let postgres = tokio::spawn(Postgres::start()).await.unwrap().unwrap();
    let (process, folder) =
        (PathBuf::from(format!("/proc/{}", postgres.pid())), postgres.folder().to_owned());
    // The seventh line has the key and the number of the segment.
    let state = std::fs::read_to_string(folder.join("data/postmaster.pid")).unwrap();
    let segment = state.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)).unwrap().to_owned();
    let segments = || std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
    let exists = |segments: String| {
        segments.lines().any(|line| line.split_whitespace().nth(1) == Some(segment.as_str()))
    };
    assert!(process.exists() && folder.exists() && exists(segments()), "{state}");

    drop(postgres);

    assert!(!process.exists() && !folder.exists());
    assert!(!exists(segments()), "segment {segment} still exists");
}
