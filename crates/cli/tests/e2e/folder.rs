//! The data folder: one process at a time.

use std::process::Command;

use serde_json::json;

use super::server::{BINARY, Server};

/// The exit code and the error of a server that cannot start.
fn serve(folder: &std::path::Path, address: &str) -> (Option<i32>, String) {
    let output = Command::new(BINARY)
        .args(["serve", "--listen", address, "--data"])
        .arg(folder)
        .output()
        .expect("the binary runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn a_second_server_on_the_same_folder_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let (code, error) = serve(folder.path(), "127.0.0.1:0");
    assert_eq!(code, Some(1));
    assert!(error.contains("in use") || error.contains("another process"), "{error}");
    drop(server);
    drop(Server::start(folder.path()));
}

#[tokio::test]
async fn without_keys_a_server_listens_on_loopback_only() {
    let folder = tempfile::tempdir().unwrap();
    let (code, error) = serve(folder.path(), "0.0.0.0:0");
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("loopback"), "{error}");
}

#[tokio::test]
async fn a_server_exits_with_zero_on_term_and_keeps_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let run = caller.start("job", Some("k"), &json!({})).await.expect(200).text("run_id");
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    assert_eq!(caller.run(&run).await["id"], json!(run));
    assert_eq!(caller.start("job", Some("k"), &json!({})).await.expect(200).text("run_id"), run);
}
