//! One request, one answer: sent, bounded in time and size, and read as what it should be.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Client, Error, Result};
use crate::Problem;

/// A whole run with a thousand results fits; an endless answer does not fill the memory.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A request under way.
pub(crate) struct Call {
    request: RequestBuilder,
    /// For people: the method and the path.
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

    pub(super) fn header(self, name: &'static str, value: &str) -> Result<Self> {
        let value = HeaderValue::from_str(value)
            .map_err(|_| Error::Settings(format!("{name} has characters that a header cannot hold")))?;
        Ok(Self { request: self.request.header(name, value), ..self })
    }

    /// Asks the server to wait, and is ready to wait as long.
    pub(super) fn waiting(self, wait: Duration) -> Self {
        Self { timeout: self.timeout + wait, ..self }
    }

    /// Sends it, and reads the answer as JSON.
    pub(super) async fn read<T: DeserializeOwned>(self) -> Result<T> {
        let timeout = self.timeout;
        let Self { request, action, gateway, .. } = self;
        let response = send(request.timeout(timeout), &gateway).await?;
        let status = response.status();
        let bytes = read_bytes(response, &action, &gateway).await?;
        if !status.is_success() {
            return Err(refusal(status.as_u16(), &bytes, action));
        }
        serde_json::from_slice(&bytes).map_err(|error| Error::Malformed {
            action,
            status: status.as_u16(),
            reason: error.to_string(),
        })
    }

    /// Sends it. The answer has no body, or one that says nothing.
    pub(super) async fn done(self) -> Result<()> {
        let timeout = self.timeout;
        let Self { request, action, gateway, .. } = self;
        let response = send(request.timeout(timeout), &gateway).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let bytes = read_bytes(response, &action, &gateway).await?;
        Err(refusal(status.as_u16(), &bytes, action))
    }

    /// Sends it, and hands over the answer as it begins to arrive. Only the beginning is bounded in time.
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
                reason: format!("it is larger than {ANSWER_BYTES_MAX} bytes"),
            });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The innermost cause says what happened ("Connection refused"); the outer ones repeat the URL.
pub(crate) fn unreachable(gateway: &str, error: &reqwest::Error) -> Error {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let reason = if error.is_timeout() { "no answer in time".to_owned() } else { innermost.to_string() };
    Error::Unreachable { gateway: gateway.to_owned(), reason }
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
        assert!(error.is_passing());
        let error = refusal(502, b"<html>bad gateway</html>", "POST /x".to_owned());
        assert!(matches!(&error, Error::Malformed { status: 502, .. }));
        assert!(error.is_passing());
        assert!(!refusal(404, b"nothing", "GET /x".to_owned()).is_passing());
    }
}
