//! A proxy that forwards all requests and replaces some responses.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Returns a replacement for the response with this path, status and code.
pub(super) type Tamper = fn(&str, u16, &str) -> Option<(u16, Value)>;

pub(super) struct TamperingProxy {
    pub(super) base: String,
    task: JoinHandle<()>,
}

impl TamperingProxy {
    pub(super) async fn start(server: &str, tamper: Tamper) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let server = server.to_owned();
        let _already_installed = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (client, server) = (client.clone(), server.clone());
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while let Some(request) = Request::read(&mut stream).await {
                        let response = request.forward(&client, &server, tamper).await;
                        // The client may have been killed.
                        let _received = stream.write_all(response.as_bytes()).await;
                    }
                });
            }
        });
        Self { base, task }
    }
}

impl Drop for TamperingProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Request {
    method: Method,
    path: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Request {
    async fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let first = line(stream).await?;
        let mut parts = first.split(' ');
        let (method, path) = (parts.next()?.parse().ok()?, parts.next()?.to_owned());
        let mut headers = BTreeMap::new();
        while let Some((name, value)) = line(stream).await?.split_once(": ") {
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        Some(Self { method, path, headers, body })
    }

    async fn forward(self, client: &reqwest::Client, server: &str, tamper: Tamper) -> String {
        let mut request = client.request(self.method, format!("{server}{}", self.path)).body(self.body);
        for name in ["content-type", "x-tenant-id", "x-api-key", "idempotency-key"] {
            if let Some(value) = self.headers.get(name) {
                request = request.header(name, value);
            }
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let body = response.text().await.unwrap();
        let read: Value = serde_json::from_str(&body).unwrap_or_default();
        let code = read["code"].as_str().unwrap_or_default();
        let (status, body) = match tamper(&self.path, status, code) {
            Some((status, instead)) => (status, instead.to_string()),
            None => (status, body),
        };
        // A 204 has neither a body nor a length.
        let length =
            if status == 204 { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        format!("HTTP/1.1 {status} Response\r\ncontent-type: application/json\r\n{length}\r\n{body}")
    }
}

/// None at the end of the connection.
async fn line(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let read = stream.read_line(&mut line).await.ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}
