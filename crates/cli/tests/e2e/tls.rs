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
    ask(gateway, ca_file).0
}

/// The same, with what it says.
fn ask(gateway: &str, ca_file: Option<&Path>) -> (Option<i32>, String) {
    let mut command = Command::new(BINARY);
    command.args(["status", "--gateway", gateway]);
    if let Some(file) = ca_file {
        command.arg("--ca-file").arg(file);
    }
    let output = command.output().expect("the binary runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn a_client_that_trusts_the_certificate_is_served_and_no_other() {
    let (folder, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let certificate = Certificate::make(files.path()).unwrap();
    let Secured { server, gateway, metrics } = start(folder.path(), &certificate);
    assert!(gateway.starts_with("https://"), "{gateway}");
    assert_eq!(status(&gateway, Some(&certificate.certificate)), Some(0));
    let trusted = Some(certificate.certificate.as_path());
    for (gateway, ca_file, hint) in [
        (gateway.clone(), None, "--ca-file"),
        (gateway.replace("https", "http"), None, "use https://"),
        (gateway.replace("localhost", "127.0.0.1"), trusted, "for another name"),
        (metrics.replace("http", "https"), None, "use http://"),
    ] {
        let (code, error) = ask(&gateway, ca_file);
        assert_eq!(code, Some(3), "{error}");
        assert!(error.contains(hint), "{gateway}: {error}");
    }

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
    let files = tempfile::tempdir().unwrap();
    let (data, certificate) = (files.path().join("data"), Certificate::make(files.path()).unwrap());
    let serve = |key: Option<&Path>| {
        let mut command = Command::new(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
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
    let file = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let text = std::fs::read_to_string(&certificate.key).unwrap();
    let other = tempfile::tempdir().unwrap();
    let other = Certificate::make(other.path()).map(|other| std::fs::read_to_string(other.key).unwrap());
    for (key, says) in [
        (files.path().join("missing.pem"), "cannot be read"),
        (file("empty.pem", ""), "there is no private key in this file"),
        (file("words.pem", "not a key"), "there is no private key in this file"),
        (file("half.pem", &text[..text.len() / 2]), "is no private key in PEM form"),
        (file("other.pem", &other.unwrap()), "cannot be used"),
    ] {
        let (code, error) = serve(Some(&key));
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains(key.to_str().unwrap()) && error.contains(says), "{error}");
    }
    assert!(!data.exists(), "nothing is made before the settings are known to be right");
}

#[tokio::test]
async fn an_expired_certificate_is_logged_and_found_by_the_doctor() {
    let (folder, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let certificate = Certificate::expired(files.path()).unwrap();
    let log = files.path().join("log");
    let mut command = Command::new(BINARY);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path());
    command.arg("--tls-cert").arg(&certificate.certificate).arg("--tls-key").arg(&certificate.key);
    command.stderr(std::fs::File::create(&log).unwrap());
    let server = Server::of(command);
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.contains("the TLS certificate has expired"), "{logged}");

    let client = reqwest::Client::builder().danger_accept_invalid_certs(true).build().unwrap();
    let doctor = async || {
        let url = format!("{}/api/v1/doctor?only=certificate_expired", server.base);
        client.get(url).send().await.unwrap().json::<serde_json::Value>().await.unwrap()
    };
    let found = doctor().await;
    assert_eq!(found["findings"][0]["subject"], certificate.certificate.to_str().unwrap(), "{found}");
    let (_, error) = ask(&server.base.replace("127.0.0.1", "localhost"), Some(&certificate.certificate));
    assert!(error.contains("has expired: renew it"), "{error}");
    Certificate::make(files.path()).unwrap();
    let found = doctor().await;
    assert_eq!(found["findings"], serde_json::json!([]), "{found}");
}
