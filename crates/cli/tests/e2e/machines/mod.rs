//! The same binary in many replicas, on a real Redis and a real NATS.

mod caps;
mod documents;
mod kills;
mod nats_workers;
mod refusals;
mod restarts;

use std::path::Path;

use interlock_servers::{Nats, NatsOptions, NatsRelease, Redis, RedisOptions};

use super::server::{Caller, Server};

/// What a test shortens: everything that waits for a process to be missed.
const SHORT: [&str; 6] = ["--poll-ms", "200", "--job-lease-ms", "2000", "--run-lease-ms", "30000"];

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
        let started = (0..replicas).map(|_| replica(&redis.url(), &nats.url(), &[])).collect();
        Self { redis, nats, replicas: started }
    }

    /// Another replica.
    pub(crate) fn replica(&self) -> Server {
        replica(&self.redis.url(), &self.nats.url(), &[])
    }

    /// One tenant's way to each replica.
    pub(crate) fn callers(&self, tenant: &str) -> Vec<Caller> {
        self.replicas.iter().map(|replica| replica.caller(tenant)).collect()
    }
}

pub(crate) fn replica(redis: &str, nats: &str, arguments: &[&str]) -> Server {
    let own = ["--redis", redis, "--nats", nats];
    // The folder is accepted and not used.
    Server::start_with(Path::new("/nonexistent/unused"), &[&own, &SHORT[..], arguments].concat())
}
