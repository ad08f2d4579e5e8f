//! A client that sends exact bytes and reads the raw response.

use std::net::SocketAddr;

use interlock_poll::LIMIT;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Debug, Clone)]
pub(crate) struct Request {
    address: SocketAddr,
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(address: SocketAddr, method: &'static str, path: &str) -> Self {
        Self { address, method, path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.text(&body.to_string())
    }

    /// A body with the media type of JSON, valid or not.
    pub(crate) fn text(self, body: &str) -> Self {
        self.header("content-type", "application/json").raw(body.as_bytes())
    }

    pub(crate) fn raw(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    pub(crate) fn written(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\nconnection: close\r\n", self.method, self.path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            text.extend(["host: ", &self.address.to_string(), "\r\n"]);
        }
        for (name, value) in &self.headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        if !self.body.is_empty() || self.method == "POST" {
            text.extend(["content-length: ", &self.body.len().to_string(), "\r\n"]);
        }
        text.push_str("\r\n");
        [text.as_bytes(), &self.body].concat()
    }

    pub(crate) async fn send(self) -> Answer {
        tokio::time::timeout(LIMIT, self.exchange()).await.expect("an answer in time")
    }

    async fn exchange(self) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(&self.written()).await.unwrap();
        Answer::read(&mut stream).await
    }
}

impl Answer {
    /// Reads until the server closes the connection.
    pub(crate) async fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        Self::parse(&bytes)
    }

    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a header");
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header =
            |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        let headers = lines.filter_map(header).collect();
        Self { status, headers, body: bytes[end + 4..].to_vec() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{error} in {} {}", self.status, String::from_utf8_lossy(&self.body))
        })
    }

    /// The body. Asserts the status.
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// The problem. Asserts its status, its code and that it is complete.
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let body = String::from_utf8_lossy(&self.body).into_owned();
        assert_eq!(self.status, status, "{body}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{body}");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{body}");
        assert_eq!(problem["status"], status, "{body}");
        for member in ["type", "title", "detail", "error"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member} in {body}");
        }
        if matches!(status, 429 | 503) {
            let seconds: u64 = self.header("retry-after").expect("Retry-After").parse().unwrap();
            let wait = problem["retry_after_ms"].as_u64().expect("retry_after_ms");
            assert_eq!(seconds, wait.div_ceil(1_000).max(1));
        }
        problem
    }
}
