//! A Postgres server starts, answers scripts, and goes with its guard.

use std::path::PathBuf;

use interlock_servers::Postgres;

#[tokio::test]
async fn a_script_is_answered_row_by_row() {
    let postgres = Postgres::start().await.unwrap();
    let script = "CREATE TABLE pairs (name text, number int);
        INSERT INTO pairs VALUES ('one', 1), ('two', 2);
        SELECT * FROM pairs ORDER BY number;";
    assert_eq!(postgres.script(script).await.unwrap(), "one|1\ntwo|2");
}

#[tokio::test]
async fn an_error_ends_the_script_and_is_told() {
    let postgres = Postgres::start().await.unwrap();
    let script = "SELECT 1 / 0; CREATE TABLE after_the_error ();";
    let error = postgres.script(script).await.unwrap_err().to_string();
    assert!(error.contains("division by zero"), "{error}");
    assert_eq!(postgres.script("SELECT to_regclass('after_the_error') IS NULL").await.unwrap(), "t");
}

#[tokio::test]
async fn it_listens_on_the_loopback_alone_and_on_no_socket_file() {
    let postgres = Postgres::start().await.unwrap();
    let told = "SELECT current_setting('listen_addresses'), current_setting('unix_socket_directories')";
    assert_eq!(postgres.script(told).await.unwrap(), "127.0.0.1|");
    assert_eq!(postgres.url(), format!("postgresql://postgres@127.0.0.1:{}/postgres", postgres.port()));
}

#[tokio::test]
async fn a_postgres_is_gone_with_its_guard_and_leaves_no_shared_memory() {
    let postgres = tokio::spawn(Postgres::start()).await.unwrap().unwrap();
    let (process, folder) =
        (PathBuf::from(format!("/proc/{}", postgres.pid())), postgres.folder().to_owned());
    // Its seventh line has the key and the number of the segment.
    let told = std::fs::read_to_string(folder.join("data/postmaster.pid")).unwrap();
    let segment = told.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)).unwrap().to_owned();
    let segments = || std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
    let is_there = |segments: String| {
        segments.lines().any(|line| line.split_whitespace().nth(1) == Some(segment.as_str()))
    };
    assert!(process.exists() && folder.exists() && is_there(segments()), "{told}");

    drop(postgres);

    assert!(!process.exists() && !folder.exists());
    assert!(!is_there(segments()), "segment {segment} is still there");
}
