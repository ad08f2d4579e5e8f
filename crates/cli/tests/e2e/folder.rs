//! The data folder: one process at a time, and nothing of a newer version.

use std::process::Command;

use serde_json::json;

use super::server::{BINARY, Server};

/// How a server ends that cannot start, and what it says.
fn serve(folder: &std::path::Path, address: &str) -> (Option<i32>, String) {
    let output = Command::new(BINARY)
        .args(["serve", "--listen", address, "--data"])
        .arg(folder)
        .output()
        .expect("the binary runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn a_second_server_on_the_same_folder_is_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let (code, told) = serve(folder.path(), "127.0.0.1:0");
    assert_eq!(code, Some(1));
    assert!(told.contains("in use") || told.contains("another process"), "{told}");
    drop(server);
    drop(Server::start(folder.path()));
}

#[tokio::test]
async fn without_keys_no_address_but_loopback_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let (code, told) = serve(folder.path(), "0.0.0.0:0");
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("loopback"), "{told}");
}

#[tokio::test]
async fn a_server_that_is_asked_to_stop_exits_with_zero_and_keeps_everything() {
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
