//! Replicas of the binary on one Redis and one NATS.

use std::path::Path;

use anyhow::{Context as _, Result};
use http::Method;
use interlock_servers::{AppendOnly, Nats, NatsOptions, Redis, RedisOptions};
use serde_json::Value;

use crate::connection::Connection;
use crate::server::Server;

/// Dropping it stops all of the processes.
pub(crate) struct Replicas {
    // Before what they stand on: fields are dropped in this order.
    gateways: Vec<Server>,
    _redis: Redis,
    _nats: Nats,
}

impl Replicas {
    pub(super) async fn start(binary: &Path, count: usize) -> Result<Self> {
        let redis = RedisOptions { append_only: AppendOnly::EverySecond, ..RedisOptions::default() };
        let redis = Redis::start(redis).await?;
        let nats = Nats::start(NatsOptions::default()).await?;
        let mut gateways = Vec::with_capacity(count);
        for _ in 0..count {
            gateways.push(Server::distributed(binary, &redis.url(), &nats.url()).await?);
        }
        Ok(Self { gateways, _redis: redis, _nats: nats })
    }

    /// A connection to one of them, in turn.
    pub(super) async fn connect(&self, number: usize) -> Result<Connection> {
        self.gateways[number % self.gateways.len()].connect().await
    }

    /// Commands that all of them have sent to Redis.
    pub(super) async fn commands_sent(&self) -> Result<u64> {
        let mut sent = 0;
        for gateway in &self.gateways {
            let status = gateway.connect().await?.call(Method::GET, "/api/v1/status", &Value::Null).await?;
            sent += status["store"]["commands_sent"].as_u64().context("the status counts commands")?;
        }
        Ok(sent)
    }
}
