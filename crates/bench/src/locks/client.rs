//! One who takes a lock.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::load::{Measured, micros, sequential};
use crate::replicas::Replicas;

pub(super) struct LockClient {
    connection: Connection,
    owner: String,
}

/// Longer than any measurement: no lease expires here.
const TTL_MS: u64 = 60_000;
const WAIT_MS: u64 = 60_000;

impl LockClient {
    pub(super) async fn connect(replicas: &Replicas, number: usize) -> Result<Self> {
        Ok(Self { connection: replicas.connect(number).await?, owner: format!("client-{number}") })
    }

    /// The token, once it is this client's turn.
    pub(super) async fn acquire(&mut self, resource: &str) -> Result<String> {
        let token = self.ask(resource, WAIT_MS).await?;
        token.with_context(|| format!("{resource} was not granted in {WAIT_MS} ms"))
    }

    /// The token, if the lock is free.
    pub(super) async fn try_acquire(&mut self, resource: &str) -> Result<Option<String>> {
        self.ask(resource, 0).await
    }

    async fn ask(&mut self, resource: &str, wait_ms: u64) -> Result<Option<String>> {
        let asked = json!({
            "resource": resource, "owner": self.owner, "mode": "exclusive", "ttl_ms": TTL_MS, "wait_ms": wait_ms,
        });
        let path = "/api/v1/locks/acquire";
        let (status, body) = self.connection.send(Method::POST, path, Bytes::from(asked.to_string())).await?;
        match status {
            StatusCode::OK => {
                let grant: Value = serde_json::from_slice(&body)?;
                Ok(Some(grant["token"].as_str().context("a grant has a token")?.to_owned()))
            }
            StatusCode::CONFLICT => Ok(None),
            other => bail!("{path} answered {other}: {}", String::from_utf8_lossy(&body)),
        }
    }

    pub(super) async fn release(&mut self, resource: &str, token: &str) -> Result<()> {
        let body = json!({"resource": resource, "token": token});
        self.connection.call(Method::POST, "/api/v1/locks/release", &body).await?;
        Ok(())
    }
}

/// One client and a lock without other contenders: how long it takes to acquire it, and to acquire and release it.
pub(super) async fn uncontended(replicas: &Replicas, time: Duration) -> Result<(Measured, Measured)> {
    let mut client = LockClient::connect(replicas, 0).await?;
    let (mut acquires, mut pairs) = (Vec::new(), Vec::new());
    let until = Instant::now() + time;
    while Instant::now() < until {
        let began = Instant::now();
        let token = client.acquire("alone").await?;
        acquires.push(micros(began));
        client.release("alone", &token).await?;
        pairs.push(micros(began));
    }
    Ok((sequential(acquires, time).await?, sequential(pairs, time).await?))
}
