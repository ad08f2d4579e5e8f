//! The two ways to Redis behind one face.

use redis::{Cmd, RedisResult, Value};

use super::cluster::Cluster;
use super::judgement::never_sent;
use super::master::MasterConnection;

pub(super) enum Lane {
    Master { link: MasterConnection, address: String },
    Cluster(Cluster),
}

impl Lane {
    pub(super) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Master { link, .. } => match link.live().await {
                Some(live) => live.send(command).await,
                None => Err(never_sent("there is no connection to Redis")),
            },
            Self::Cluster(cluster) => cluster.send(command).await,
        }
    }

    pub(super) async fn ask_every_master(&self, command: &Cmd) -> RedisResult<Vec<(String, Value)>> {
        match self {
            Self::Master { address, .. } => Ok(vec![(address.clone(), self.send(command).await?)]),
            Self::Cluster(cluster) => cluster.ask_every_master(command).await,
        }
    }

    /// Of one of those that [`ask_every_master`](Self::ask_every_master) names.
    pub(super) async fn ask_master(&self, address: &str, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Master { .. } => self.send(command).await,
            Self::Cluster(cluster) => cluster.ask_master(address, command).await,
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        match self {
            Self::Master { link, .. } => link.is_connected(),
            Self::Cluster(cluster) => cluster.is_connected(),
        }
    }

    pub(super) fn store_changes(&self) -> u64 {
        match self {
            Self::Master { link, .. } => link.store_changes(),
            Self::Cluster(cluster) => cluster.store_changes(),
        }
    }
}
