//! Replicas of the binary on one Redis and one NATS.

use std::path::Path;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::Method;
use interlock_servers::{AppendOnly, Nats, NatsOptions, Redis, RedisOptions};
use serde_json::Value;

use crate::connection::Connection;
use crate::server::Server;

/// Dropping it stops all of the processes.
pub(crate) struct Replicas {
    // Before what they stand on: fields are dropped in this order.
    gateways: Vec<Server>,
    redis: Redis,
    _nats: Nats,
}

impl Replicas {
    pub(crate) async fn start(binary: &Path, count: usize) -> Result<Self> {
        let redis = RedisOptions { append_only: AppendOnly::EverySecond, ..RedisOptions::default() };
        let redis = Redis::start(redis).await?;
        let nats = Nats::start(NatsOptions::default()).await?;
        let mut gateways = Vec::with_capacity(count);
        for _ in 0..count {
            gateways.push(Server::distributed(binary, (&redis.url(), &nats.url()), &[]).await?);
        }
        Ok(Self { gateways, redis, _nats: nats })
    }

    /// A connection to one of them, in turn.
    pub(crate) async fn connect(&self, number: usize) -> Result<Connection> {
        self.gateways[number % self.gateways.len()].connect().await
    }

    /// Commands that all of them have sent to Redis.
    pub(crate) async fn commands_sent(&self) -> Result<u64> {
        let mut sent = 0;
        for gateway in &self.gateways {
            let status = gateway.connect().await?.call(Method::GET, "/api/v1/status", &Value::Null).await?;
            sent += status["store"]["commands_sent"].as_u64().context("the status counts commands")?;
        }
        Ok(sent)
    }

    /// How often a run of the tenant `default` was written.
    pub(crate) async fn run_version(&self, run: &str) -> Result<u64> {
        let version = self.redis.command(&["HGET", &format!("wf:run:{{default}}:{run}"), "version"]).await?;
        version.parse().with_context(|| format!("Redis does not know the version of {run}: {version:?}"))
    }

    /// What all of them have counted under a name without labels.
    pub(crate) async fn metric(&self, name: &str) -> Result<u64> {
        let mut counted = 0;
        for gateway in &self.gateways {
            let (_, text) = gateway.connect().await?.send(Method::GET, "/metrics", Bytes::new()).await?;
            let text = String::from_utf8_lossy(&text);
            let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            let value = values.next().with_context(|| format!("the status has no {name}"))?;
            counted += value.parse::<u64>().with_context(|| format!("{name} is {value:?}"))?;
        }
        Ok(counted)
    }
}
