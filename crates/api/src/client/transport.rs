//! One request and its answer, bounded in time and size.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Client, Error, Result};
use crate::Problem;

/// Enough for a run with a thousand results; an endless answer does not fill the memory.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A request under way.
pub(crate) struct Call {
    request: RequestBuilder,
    /// The method and the path, for errors.
    action: String,
    gateway: String,
    timeout: Duration,
}

impl Client {
    pub(super) fn get(&self, path: &str) -> Call {
        self.call(Method::GET, path)
    }

    pub(super) fn post(&self, path: &str) -> Call {
        self.call(Method::POST, path)
    }

    pub(super) fn put(&self, path: &str) -> Call {
        self.call(Method::PUT, path)
    }

    pub(super) fn delete(&self, path: &str) -> Call {
        self.call(Method::DELETE, path)
    }

    fn call(&self, method: Method, path: &str) -> Call {
        let action = format!("{method} {path}");
        let request = self.http.request(method, format!("{}{path}", self.gateway));
        Call { request, action, gateway: self.gateway.clone(), timeout: self.timeout }
    }
}

impl Call {
    pub(super) fn query(self, query: &impl Serialize) -> Self {
        Self { request: self.request.query(query), ..self }
    }

    pub(super) fn body(self, body: &impl Serialize) -> Self {
        Self { request: self.request.json(body), ..self }
    }

    /// A body that is JSON or YAML as its author wrote it.
    pub(super) fn text(self, media_type: &'static str, text: Vec<u8>) -> Self {
        Self { request: self.request.header(CONTENT_TYPE, media_type).body(text), ..self }
    }

    pub(super) fn header(self, name: &'static str, value: &str) -> Result<Self> {
        Ok(Self { request: self.request.header(name, super::header(name, value, false)?), ..self })
    }

    /// Extends the timeout by the time that the request asks the server to wait.
    pub(super) fn waiting(self, wait: Duration) -> Self {
        Self { timeout: self.timeout + wait, ..self }
    }

    /// Sends the request and reads the answer as JSON.
    pub(super) async fn read<T: DeserializeOwned>(self) -> Result<T> {
        let action = self.action.clone();
        let (status, bytes) = self.receive().await?;
        serde_json::from_slice(&bytes).map_err(|error| Error::Malformed {
            action,
            status,
            reason: error.to_string(),
        })
    }

    /// Sends the request and ignores the body of the answer.
    pub(super) async fn done(self) -> Result<()> {
        self.receive().await.map(drop)
    }

    /// The status and the body of a success.
    async fn receive(self) -> Result<(u16, Vec<u8>)> {
        let Self { request, action, gateway, timeout } = self;
        let response = send(request.timeout(timeout), &gateway).await?;
        let status = response.status();
        let bytes = read_bytes(response, &action, &gateway).await?;
        if status.is_success() {
            Ok((status.as_u16(), bytes))
        } else {
            Err(refusal(status.as_u16(), &bytes, action))
        }
    }

    /// Sends the request and returns the answer when its headers have arrived. Only that is bounded in time.
    pub(crate) async fn stream(self) -> Result<Response> {
        let Self { request, action, gateway, timeout } = self;
        let late = || Error::Unreachable { gateway: gateway.clone(), reason: "no answer in time".to_owned() };
        let response = tokio::time::timeout(timeout, send(request, &gateway)).await.map_err(|_| late())??;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let bytes = tokio::time::timeout(timeout, read_bytes(response, &action, &gateway));
        Err(refusal(status.as_u16(), &bytes.await.map_err(|_| late())??, action))
    }

    pub(crate) fn headers(self, headers: HeaderMap) -> Self {
        Self { request: self.request.headers(headers), ..self }
    }
}

async fn send(request: RequestBuilder, gateway: &str) -> Result<Response> {
    request.send().await.map_err(|error| unreachable(gateway, &error))
}

async fn read_bytes(mut response: Response, action: &str, gateway: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(gateway, &error))? {
        if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(Error::Malformed {
                action: action.to_owned(),
                status: response.status().as_u16(),
                reason: format!("larger than {ANSWER_BYTES_MAX} bytes"),
            });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

pub(crate) fn unreachable(gateway: &str, error: &reqwest::Error) -> Error {
    let reason = if error.is_timeout() { "no answer in time".to_owned() } else { innermost_cause(error) };
    Error::Unreachable { gateway: gateway.to_owned(), reason }
}

/// Says what happened ("Connection refused"), where the outer errors repeat the URL.
pub fn innermost_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// A client that follows no redirect, which would send its secrets to another server, and uses no proxy of the
/// environment for this machine.
pub fn careful_client(url: &reqwest::Url, headers: HeaderMap) -> reqwest::ClientBuilder {
    install_tls();
    let builder = reqwest::Client::builder()
        .default_headers(headers)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("interlock/", env!("CARGO_PKG_VERSION")));
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback =
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_loopback { builder.no_proxy() } else { builder }
}

/// Installs the TLS provider of the process. Later calls change nothing.
pub fn install_tls() {
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
}

fn refusal(status: u16, bytes: &[u8], action: String) -> Error {
    if let Ok(problem) = serde_json::from_slice::<Problem>(bytes) {
        return Error::Problem(Box::new(problem));
    }
    let text = String::from_utf8_lossy(bytes);
    Error::Malformed { action, status, reason: text.trim().chars().take(200).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn a_problem_body_becomes_a_problem_and_anything_else_is_malformed() {
        let problem = Problem {
            current: Some(2),
            ..Problem::new(Code::MaxConcurrentRuns, "max concurrent runs reached")
        };
        let bytes = serde_json::to_vec(&problem).unwrap();
        let error = refusal(429, &bytes, "POST /x".to_owned());
        assert_eq!(error.code(), Some(Code::MaxConcurrentRuns));
        assert!(error.is_transient());
        let error = refusal(502, b"<html>bad gateway</html>", "POST /x".to_owned());
        assert!(matches!(&error, Error::Malformed { status: 502, .. }));
        assert!(error.is_transient());
        assert!(!refusal(404, b"nothing", "GET /x".to_owned()).is_transient());
    }
}
