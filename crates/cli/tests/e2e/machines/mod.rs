//! Replicas of the binary on a real Redis and a real NATS.

mod admission_lock;
mod budgets;
mod caps;
mod chaos;
mod children;
mod data_loss;
mod doctor;
mod documents;
mod drill;
mod events;
mod fairness;
mod fan_in;
mod kills;
mod lab;
mod limits;
mod locks;
mod monitor;
mod nats_workers;
mod orphans;
mod queues;
mod refusals;
mod restarts;
mod retry_policies;
mod rollouts;
mod run_lock;
mod step_budgets;
mod ticks;
mod workers;

use std::path::Path;

use interlock_servers::{Nats, NatsOptions, NatsRelease, Redis, RedisOptions};

use super::server::{Caller, Server};

/// Short times to detect that a process is missing.
const SHORT: [&str; 8] =
    ["--poll-ms", "200", "--job-lease-ms", "2000", "--run-lease-ms", "30000", "--job-lock-ms", "5000"];

/// Redis, NATS, and replicas of the control plane on them.
pub(crate) struct Machines {
    pub(crate) redis: Redis,
    pub(crate) nats: Nats,
    pub(crate) replicas: Vec<Server>,
}

impl Machines {
    pub(crate) async fn start(replicas: usize) -> Self {
        Self::start_on(replicas, NatsRelease::Debian).await
    }

    pub(crate) async fn start_on(replicas: usize, release: NatsRelease) -> Self {
        let redis = Redis::start(RedisOptions::default()).await.unwrap();
        let nats = Nats::start(NatsOptions { release, ..NatsOptions::default() }).await.unwrap();
        Self { redis, nats, replicas: Vec::new() }.with_replicas(replicas, &[])
    }

    /// Starts replicas with these arguments.
    pub(crate) async fn start_with(replicas: usize, arguments: &[&str]) -> Self {
        Self::start(0).await.with_replicas(replicas, arguments)
    }

    /// Starts more replicas.
    pub(crate) fn with_replicas(mut self, replicas: usize, arguments: &[&str]) -> Self {
        let start = |_| replica(&self.redis.url(), &self.nats.url(), arguments);
        let started: Vec<_> = (0..replicas).map(start).collect();
        self.replicas.extend(started);
        self
    }

    /// Starts another replica.
    pub(crate) fn replica(&self) -> Server {
        replica(&self.redis.url(), &self.nats.url(), &[])
    }

    /// One tenant's client of each replica.
    pub(crate) fn callers(&self, tenant: &str) -> Vec<Caller> {
        self.replicas.iter().map(|replica| replica.caller(tenant)).collect()
    }
}

pub(crate) fn replica(redis: &str, nats: &str, arguments: &[&str]) -> Server {
    let own = ["--redis", redis, "--nats", nats];
    // The folder is not used with Redis.
    Server::start_with(Path::new("/nonexistent/unused"), &[&own, &SHORT[..], arguments].concat())
}
