//! Throws one kind of bomb again and again, whatever the server answers.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use super::kinds::Bomb;
use super::text;
use crate::connection::Connection;

/// Between two bombs of one kind, so that it is they that are measured, and not a flood of small requests.
const PAUSE: Duration = Duration::from_millis(10);

/// After this the server is not slow, but stuck.
const ANSWERED_WITHIN: Duration = Duration::from_mins(1);

/// What the server answered.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) accepted: u64,
    pub(super) refused: u64,
    /// For now: too many at once, or the store was too slow.
    pub(super) unavailable: u64,
    /// 500, or no answer.
    pub(super) failed: u64,
}

impl Answers {
    pub(super) fn thrown(&self) -> u64 {
        self.accepted + self.refused + self.unavailable + self.failed
    }

    pub(super) fn shown(&self) -> String {
        let Self { accepted, refused, unavailable, failed } = self;
        format!("{accepted} accepted, {refused} refused, {unavailable} unavailable, {failed} failed")
    }

    fn count(&mut self, status: StatusCode) {
        match status.as_u16() {
            200..300 => self.accepted += 1,
            400..500 => self.refused += 1,
            503 => self.unavailable += 1,
            _ => self.failed += 1,
        }
    }
}

pub(super) struct Thrower {
    bomb: Bomb,
    address: String,
    key: String,
    connection: Option<Connection>,
    answers: Answers,
    /// One that is held for as long as the bombs last.
    job: Option<Value>,
}

impl Thrower {
    pub(super) fn new(bomb: Bomb, address: String, key: String) -> Self {
        Self { bomb, address, key, connection: None, answers: Answers::default(), job: None }
    }

    pub(super) async fn throw_until(mut self, until: Instant) -> Result<(Bomb, Answers)> {
        let mut number = 0;
        while Instant::now() < until {
            let thrown = tokio::time::timeout(ANSWERED_WITHIN, self.throw(number)).await;
            thrown.with_context(|| format!("{}: no answer in {ANSWERED_WITHIN:?}", self.bomb.name()))??;
            number += 1;
            tokio::time::sleep(PAUSE).await;
        }
        Ok((self.bomb, self.answers))
    }

    async fn throw(&mut self, number: usize) -> Result<()> {
        match self.bomb {
            Bomb::Progress => self.report_progress(number).await,
            Bomb::DeepOutputs => self.complete_deeply(number).await,
            Bomb::Tenants => self.be_another_tenant(number).await,
            Bomb::Schemas | Bomb::Renders | Bomb::Keys | Bomb::LongNames => {
                for (path, body) in self.bomb.requests(number) {
                    self.post(&path, body).await?;
                }
                Ok(())
            }
        }
    }

    async fn report_progress(&mut self, number: usize) -> Result<()> {
        if self.job.is_none() {
            self.job = self.start_and_claim("progress").await?;
        }
        let Some(job) = &self.job else { return Ok(()) };
        let message = format!("{number} {}", "x".repeat(4_000));
        let body = json!({"fence": job["fence"], "percent": number % 100, "message": message});
        self.post(&path_of(job, "progress")?, text(&body)).await.map(drop)
    }

    async fn complete_deeply(&mut self, number: usize) -> Result<()> {
        let (topic, output) = Bomb::deep_output(number);
        let Some(job) = self.start_and_claim(topic).await? else { return Ok(()) };
        let body = [format!("{{\"fence\":{},\"output\":", job["fence"]).as_bytes(), output, b"}"].concat();
        let answered = self.post(&path_of(&job, "complete")?, Bytes::from(body)).await?;
        if answered.is_none() {
            // Otherwise its run would stay for ever.
            let body = json!({"fence": job["fence"], "error": "refused", "retryable": false});
            self.post(&path_of(&job, "fail")?, text(&body)).await?;
        }
        Ok(())
    }

    async fn be_another_tenant(&mut self, number: usize) -> Result<()> {
        let mut headers = HeaderMap::new();
        headers.insert("x-tenant-id", HeaderValue::from_str(&format!("tenant-{number}"))?);
        for (path, body) in Bomb::Tenants.requests(number) {
            self.send(&path, headers.clone(), body).await?;
        }
        Ok(())
    }

    /// A job of a new run of the workflow with this name, whose topic has the same name.
    async fn start_and_claim(&mut self, topic: &str) -> Result<Option<Value>> {
        self.post(&format!("/api/v1/workflows/{topic}/runs"), Bytes::from_static(b"{}")).await?;
        let claim = json!({"topics": [topic], "max_jobs": 1, "wait_ms": 1_000, "lease_ms": 600_000});
        let claimed = self.post("/api/v1/workers/bomber/claim", text(&claim)).await?;
        Ok(claimed.and_then(|claimed| claimed["jobs"].get(0).cloned()))
    }

    /// The answer, if it was accepted.
    async fn post(&mut self, path: &str, body: Bytes) -> Result<Option<Value>> {
        self.send(path, HeaderMap::new(), body).await
    }

    async fn send(&mut self, path: &str, headers: HeaderMap, body: Bytes) -> Result<Option<Value>> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            // If the server does not accept one, it is dead.
            None => Connection::open(&self.address).await?.with_key(&self.key)?,
        };
        let Ok((status, answered, body)) = connection.send_with(Method::POST, path, headers, body).await
        else {
            self.answers.failed += 1;
            return Ok(None);
        };
        self.answers.count(status);
        if status == StatusCode::UNAUTHORIZED {
            bail!("{path}: the key does not count: {}", String::from_utf8_lossy(&body));
        }
        if answered.get("connection").is_none_or(|it| it != "close") {
            self.connection = Some(connection);
        }
        Ok(status.is_success().then(|| serde_json::from_slice(&body).unwrap_or_default()))
    }
}

fn path_of(job: &Value, verb: &str) -> Result<String> {
    let id = job["job_id"].as_str().context("a job has an id")?;
    Ok(format!("/api/v1/jobs/{id}/{verb}"))
}
