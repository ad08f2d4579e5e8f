//! Finds the server to talk to: the one that is named, or the master that the Sentinels name.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult};
use tokio::sync::Notify;

use super::address::Host;
use super::dialer::{As, Dialer};
use super::error::OpenError;
use super::facts::Facts;
use super::live::Live;

pub(super) struct Finder {
    dialer: Dialer,
}

/// A connection, and what the server at its other end said about itself.
pub(super) struct Found {
    pub(super) live: Live,
    pub(super) host: Host,
    pub(super) facts: Facts,
}

impl Finder {
    pub(super) fn new(dialer: Dialer) -> Self {
        Self { dialer }
    }

    pub(super) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Connects and asks the server who it is. It calls `noticed` when the connection ends.
    pub(super) async fn find(&self, noticed: &Arc<Notify>) -> Result<Found, OpenError> {
        if let Some(master) = self.dialer.address().master() {
            let host = self.ask_sentinels(master).await?;
            return self.connect(host, noticed).await;
        }
        let mut refusal = None;
        for host in self.dialer.address().hosts() {
            match self.connect(host.clone(), noticed).await {
                Ok(found) => return Ok(found),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        Err(refusal.unwrap_or(OpenError::NotThere { address: String::new(), reason: "no host".to_owned() }))
    }

    async fn connect(&self, host: Host, noticed: &Arc<Notify>) -> Result<Found, OpenError> {
        let explain = |error: RedisError| self.dialer.explain(&host, &error);
        let live = Live::dial(&self.dialer, &host, noticed).await.map_err(explain)?;
        let facts = live.facts().await.map_err(explain)?;
        // A replica of a Cluster is a good seed; elsewhere it takes no writes.
        if facts.is_replica && !facts.is_cluster {
            return Err(OpenError::Replica { address: host.to_string() });
        }
        Ok(Found { live, host, facts })
    }

    /// The master as the first Sentinel that answers knows it. Each connection asks again.
    async fn ask_sentinels(&self, master: &str) -> Result<Host, OpenError> {
        let mut refusal = None;
        for sentinel in self.dialer.address().hosts() {
            match self.ask_sentinel(sentinel, master).await {
                Ok(Some((name, port))) => return Ok(Host { name, port }),
                // It outranks a Sentinel that is not there: the name is what the operator must look at.
                Ok(None) => {
                    let address = sentinel.to_string();
                    refusal = Some(OpenError::UnknownMaster { address, master: master.to_owned() });
                }
                Err(error) => refusal = refusal.or_else(|| Some(self.dialer.explain(sentinel, &error))),
            }
        }
        Err(refusal
            .unwrap_or(OpenError::NotThere { address: String::new(), reason: "no Sentinel".to_owned() }))
    }

    async fn ask_sentinel(&self, sentinel: &Host, master: &str) -> RedisResult<Option<(String, u16)>> {
        let mut connection = self.dial_sentinel(sentinel).await?;
        redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(master).query_async(&mut connection).await
    }

    async fn dial_sentinel(&self, sentinel: &Host) -> RedisResult<MultiplexedConnection> {
        match self.dialer.dial(sentinel, As::SentinelUser, || ()).await {
            Err(error) if !error.is_io_error() && self.dialer.address().login().is_some() => {
                self.dialer.dial(sentinel, As::Anonymous, || ()).await
            }
            answer => answer,
        }
    }
}
