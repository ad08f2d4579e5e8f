//! HTTPS, and metrics at an address of their own.

use std::path::Path;
use std::process::Command;

use interlock_poll::until;
use interlock_servers::Certificate;

use super::server::{BINARY, Server};

struct Secured {
    server: Server,
    /// By the name in the certificate.
    gateway: String,
    metrics: String,
}

fn start(folder: &Path, certificate: &Certificate) -> Secured {
    let mut command = Command::new(BINARY);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--data"])
        .arg(folder);
    command.arg("--tls-cert").arg(&certificate.certificate).arg("--tls-key").arg(&certificate.key);
    let server = Server::of(command);
    let gateway = server.base.replace("127.0.0.1", "localhost");
    let metrics = server.ready.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next());
    let metrics = format!("http://{}", metrics.expect("the line names the address of the metrics"));
    Secured { server, gateway, metrics }
}

/// The exit code of a command that trusts this file.
fn status(gateway: &str, ca_file: Option<&Path>) -> Option<i32> {
    let mut command = Command::new(BINARY);
    command.args(["status", "--gateway", gateway]);
    if let Some(file) = ca_file {
        command.arg("--ca-file").arg(file);
    }
    command.output().expect("the binary runs").status.code()
}

#[tokio::test]
async fn a_client_that_trusts_the_certificate_is_served_and_no_other() {
    let (folder, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let certificate = Certificate::make(files.path()).unwrap();
    let Secured { server, gateway, metrics } = start(folder.path(), &certificate);
    assert!(gateway.starts_with("https://"), "{gateway}");
    assert_eq!(status(&gateway, Some(&certificate.certificate)), Some(0));
    assert_eq!(status(&gateway, None), Some(3));
    assert_eq!(status(&gateway.replace("https", "http"), None), Some(3));

    let get = |url: String| reqwest::get(url);
    assert_eq!(get(format!("{metrics}/metrics")).await.unwrap().status(), 200);
    assert_eq!(get(format!("{metrics}/readyz")).await.unwrap().status(), 200);
    assert_eq!(get(format!("{metrics}/api/v1/status")).await.unwrap().status(), 404);
    let trusted = reqwest::Certificate::from_pem(&std::fs::read(&certificate.certificate).unwrap()).unwrap();
    let client = reqwest::Client::builder().tls_certs_merge([trusted]).build().unwrap();
    assert_eq!(client.get(format!("{gateway}/healthz")).send().await.unwrap().status(), 200);
    assert_eq!(client.get(format!("{gateway}/metrics")).send().await.unwrap().status(), 404);
    assert_eq!(server.stop(), Some(0));
}

#[tokio::test]
async fn a_renewed_certificate_needs_no_restart() {
    let (folder, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = Certificate::make(files.path()).unwrap();
    let Secured { server: _server, gateway, .. } = start(folder.path(), &first);
    let old = files.path().join("old.pem");
    std::fs::copy(&first.certificate, &old).unwrap();
    assert_eq!(status(&gateway, Some(&old)), Some(0));
    std::fs::write(&first.key, "half a file").unwrap();
    let renewed = Certificate::make(files.path()).unwrap();
    until("the new certificate is served", async || status(&gateway, Some(&renewed.certificate)) == Some(0))
        .await;
    assert_eq!(status(&gateway, Some(&old)), Some(3));
}

#[tokio::test]
async fn a_certificate_without_its_key_is_wrong_usage_and_a_bad_file_is_named() {
    let (folder, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let certificate = Certificate::make(files.path()).unwrap();
    let serve = |key: Option<&Path>| {
        let mut command = Command::new(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path());
        command.arg("--tls-cert").arg(&certificate.certificate);
        if let Some(key) = key {
            command.arg("--tls-key").arg(key);
        }
        let output = command.output().expect("the binary runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, error) = serve(None);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--tls-cert needs --tls-key"), "{error}");
    let missing = files.path().join("missing.pem");
    let (code, error) = serve(Some(&missing));
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("missing.pem"), "{error}");
}
