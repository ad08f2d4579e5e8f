//! An HTTP service that compares `Fence-Token`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::{FencedResource, Stored, Write, example, rules};

/// The example's service, ended with its guard.
struct Service {
    child: Child,
    base: String,
    client: reqwest::Client,
    folder: Arc<tempfile::TempDir>,
}

impl Service {
    fn start() -> Self {
        Self::start_in(Arc::new(tempfile::tempdir().unwrap()))
    }

    fn start_in(folder: Arc<tempfile::TempDir>) -> Self {
        let mut child = Command::new(example("http/service.py"))
            .arg(folder.path().join("service.db"))
            .arg("0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut printed = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut printed).unwrap();
        let base = printed.trim().strip_prefix("serves ").expect("the service prints its address").to_owned();
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { child, base, client: reqwest::Client::new(), folder }
    }

    async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut request = self.client.request(method, format!("{}/{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(body.to_owned()).send().await.unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn version(response: &Response) -> u64 {
    let tag = response.headers()["etag"].to_str().unwrap();
    tag.trim_matches('"').parse().unwrap()
}

fn version_unless_refused(response: &Response) -> Option<u64> {
    match response.status().as_u16() {
        200 => Some(version(response)),
        409 | 412 => None,
        other => panic!("{other}: {response:?}"),
    }
}

impl FencedResource for Service {
    fn worker(&self) -> (PathBuf, Vec<(&'static str, String)>) {
        (example("http"), vec![("SERVICE_URL", self.base.clone())])
    }

    async fn take(&self, item: &str, fence: u64) -> Option<u64> {
        let headers = [("Fence-Token", fence.to_string())];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        version_unless_refused(&self.send(Method::POST, &format!("{item}/take"), &headers, "").await)
    }

    async fn write(&self, Write { item, fence, version, body }: Write<'_>) -> Option<u64> {
        let (fence, version) = (fence.to_string(), format!("\"{version}\""));
        let headers = [("Fence-Token", fence.as_str()), ("If-Match", version.as_str())];
        version_unless_refused(&self.send(Method::PUT, item, &headers, body).await)
    }

    async fn stored(&self, item: &str) -> Stored {
        let response = self.send(Method::GET, item, &[], "").await;
        let version = version(&response);
        Stored { body: response.text().await.unwrap(), version }
    }
}

#[tokio::test]
async fn a_service_accepts_the_holders_writes_in_order_and_refuses_late_ones() {
    rules::accepts_the_holders_writes_in_order_and_refuses_late_ones(&Service::start()).await;
}

#[tokio::test]
async fn a_name_with_many_writers_keeps_the_write_with_the_largest_fence() {
    rules::keeps_the_write_with_the_largest_fence(&Service::start()).await;
}

#[tokio::test]
async fn a_worker_that_was_paused_past_its_lease_cannot_change_the_service() {
    rules::is_not_changed_by_a_worker_that_was_paused_past_its_lease(&Service::start()).await;
}

#[tokio::test]
async fn a_service_gives_the_reason_of_a_refusal() {
    let service = Service::start();
    let refusal = async |method: Method, path: &str, headers: &[(&str, &str)]| {
        let response = service.send(method, path, headers, "body").await;
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    assert_eq!(service.take("item", 10).await, Some(0));

    let late = refusal(Method::PUT, "item", &[("Fence-Token", "9"), ("If-Match", "\"0\"")]).await;
    let expected = json!({"status": 409, "code": "stale_fence", "held": 9, "current": 10});
    assert_eq!(late, (409, expected));
    let outdated = refusal(Method::PUT, "item", &[("Fence-Token", "10"), ("If-Match", "\"7\"")]).await;
    let expected = json!({"status": 412, "code": "stale_version", "held": 7, "current": 0});
    assert_eq!(outdated, (412, expected));
    for headers in [&[("If-Match", "\"0\"")][..], &[("Fence-Token", "10")], &[("Fence-Token", "ten")]] {
        let (status, problem) = refusal(Method::PUT, "item", headers).await;
        assert_eq!((status, &problem["code"]), (428, &json!("header_required")), "{problem}");
    }
    assert_eq!(service.stored("item").await, Stored::new("", 0));
}

#[tokio::test]
async fn a_service_knows_the_largest_fence_after_a_kill() {
    let service = Service::start();
    assert_eq!(service.take("item", 10).await, Some(0));
    let folder = service.folder.clone();
    drop(service);
    let service = Service::start_in(folder);
    assert_eq!(service.take("item", 9).await, None);
    assert_eq!(service.take("item", 10).await, Some(0));
}

#[tokio::test]
async fn an_incomplete_body_is_not_written() {
    let service = Service::start();
    assert_eq!(service.take("item", 10).await, Some(0));
    let mut stream = TcpStream::connect(service.base.trim_start_matches("http://")).unwrap();
    let head = "PUT /item HTTP/1.1\r\nFence-Token: 10\r\nIf-Match: \"0\"\r\nContent-Length: 10\r\n\r\n";
    write!(stream, "{head}half").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 400 ") && answer.contains("incomplete_body"), "{answer}");
    assert_eq!(service.stored("item").await, Stored::new("", 0));
}
