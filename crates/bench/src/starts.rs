//! Starts per second: all admitted, all refused, and the empty handler that is their ceiling.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::connection::Connection;
use crate::load::{Measured, micros, run};
use crate::server::{Server, WORKFLOW};

pub(crate) const INPUT: &str = r#"{"question":"what is the answer?","n":42}"#;

/// What every client asks again and again, and how it must be answered.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) address: String,
    pub(crate) path: String,
    pub(crate) tenant: Option<&'static str>,
    /// Each request carries an idempotency key of its own, which begins so.
    pub(crate) keys: Option<String>,
    pub(crate) expected: StatusCode,
}

pub(crate) async fn empty_handler(time: Duration, clients: usize) -> Result<Measured> {
    let server = Server::empty().await?;
    let question = Question { path: "/".to_owned(), ..Question::start(&server.address) };
    question.ask(time, clients).await
}

pub(crate) async fn admitted(binary: &Path, time: Duration, clients: usize) -> Result<Measured> {
    let server = Server::interlock(binary, 1_000_000_000).await?;
    Question::start(&server.address).ask(time, clients).await
}

pub(crate) async fn refused(binary: &Path, time: Duration, clients: usize) -> Result<Measured> {
    let server = Server::interlock(binary, 1).await?;
    let question = Question::start(&server.address);
    let input = serde_json::from_str(INPUT)?;
    server.connect().await?.call(Method::POST, &question.path, &input).await?;
    Question { expected: StatusCode::TOO_MANY_REQUESTS, ..question }.ask(time, clients).await
}

impl Question {
    /// A start that is admitted.
    pub(crate) fn start(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            path: format!("/api/v1/workflows/{WORKFLOW}/runs"),
            tenant: None,
            keys: None,
            expected: StatusCode::OK,
        }
    }

    pub(crate) async fn ask(&self, time: Duration, clients: usize) -> Result<Measured> {
        run(clients, time, |number, until| self.clone().ask_until(number, until)).await
    }

    async fn ask_until(self, client: usize, until: Instant) -> Result<Vec<u64>> {
        let mut connection = Connection::open(&self.address).await?;
        if let Some(tenant) = self.tenant {
            connection = connection.of_tenant(tenant)?;
        }
        let mut seen = Vec::new();
        while Instant::now() < until {
            let headers = self.headers(client, seen.len())?;
            let began = Instant::now();
            let body = Bytes::from_static(INPUT.as_bytes());
            let (status, _, body) = connection.send_with(Method::POST, &self.path, headers, body).await?;
            self.check(status, &body)?;
            seen.push(micros(began));
        }
        Ok(seen)
    }

    fn headers(&self, client: usize, number: usize) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        if let Some(keys) = &self.keys {
            let key = HeaderValue::try_from(format!("{keys}-{client}-{number}"))?;
            headers.insert("idempotency-key", key);
        }
        Ok(headers)
    }

    /// Every answer must be the expected one: a figure of something else would be worth nothing.
    fn check(&self, status: StatusCode, body: &[u8]) -> Result<()> {
        const FRESH: &[u8] = br#""replayed":false"#;
        let expected = self.expected;
        if status != expected {
            bail!("expected {expected}, got {status}: {}", String::from_utf8_lossy(body));
        }
        if self.keys.is_some() && !body.windows(FRESH.len()).any(|part| part == FRESH) {
            bail!("a start with a fresh key was not a fresh one: {}", String::from_utf8_lossy(body));
        }
        Ok(())
    }
}
