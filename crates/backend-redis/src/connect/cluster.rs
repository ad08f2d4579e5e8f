//! The connection to a Redis Cluster: redis-rs knows which node holds which slot; we watch who the masters are.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rand::RngExt;
use redis::aio::ConnectionLike;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo, SingleNodeRoutingInfo};
use redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::dialer::Dialer;
use super::facts::{Facts, Identity};
use super::live::without_error;
use super::settings::ConnectSettings;

/// How often a command that certainly did nothing is sent again.
const RETRIES_MAX: u32 = 3;
const WATCH_EVERY: Duration = Duration::from_secs(2);

/// The door to a Cluster. Dropping it ends the task that watches its masters.
pub(super) struct Cluster {
    connection: ClusterConnection,
    watched: Arc<Watched>,
    connection_wait: Duration,
    _watch: AbortOnDropHandle<()>,
}

struct Watched {
    connected: AtomicBool,
    store_changes: AtomicU64,
}

/// The nodes that hold slots, by the Cluster's name for them and by who they say they are: a failover changes the
/// first, a restart only the second.
#[derive(PartialEq, Eq)]
struct Masters {
    nodes: BTreeSet<String>,
    identities: BTreeSet<Identity>,
}

impl Cluster {
    pub(super) async fn open(dialer: &Dialer, settings: &ConnectSettings) -> RedisResult<Self> {
        let connection = dialer.cluster_client()?.get_async_connection().await?;
        let masters = Masters::read(&connection).await?;
        let watched =
            Arc::new(Watched { connected: AtomicBool::new(true), store_changes: AtomicU64::new(0) });
        let watch = watch(connection.clone(), Arc::clone(&watched), masters);
        Ok(Self {
            connection,
            watched,
            connection_wait: settings.connection_wait,
            _watch: AbortOnDropHandle::new(tokio::spawn(watch)),
        })
    }

    /// Sends to the node that has the keys. Sent again only after an answer that says nothing was done, so that what
    /// is returned speaks for all attempts.
    pub(super) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let give_up_at = Instant::now() + self.connection_wait;
        let mut attempt = 0;
        loop {
            let answer = self.send_once(command).await;
            let pause = Duration::from_millis(20 << attempt).mul_f64(rand::rng().random_range(0.0..=1.0));
            let again = attempt < RETRIES_MAX && Instant::now() + pause < give_up_at;
            match answer {
                Err(error) if again && is_worth_another_try(&error) => tokio::time::sleep(pause).await,
                answer => return answer,
            }
            attempt += 1;
        }
    }

    async fn send_once(&self, command: &Cmd) -> RedisResult<Value> {
        let answer = self.connection.clone().req_packed_command(command).await.and_then(without_error);
        match answer {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::Ask) => {
                self.follow(command, error).await
            }
            answer => answer,
        }
    }

    /// The key's slot is moving to another node, and the key is there already.
    async fn follow(&self, command: &Cmd, ask: RedisError) -> RedisResult<Value> {
        let target = ask.redirect_node().and_then(|(node, _)| node.rsplit_once(':'));
        let Some((host, Ok(port))) = target.map(|(host, port)| (host.to_owned(), port.parse())) else {
            return Err(ask);
        };
        let mut pipeline = redis::pipe();
        pipeline.cmd("ASKING").add_command(command.clone());
        let route = SingleNodeRoutingInfo::ByAddress { host, port };
        let answers = self.connection.clone().route_pipeline(pipeline, 1, 1, route).await?;
        answers.into_iter().next().map_or(Err(ask), without_error)
    }

    pub(super) async fn ask_every_master(&self, command: &Cmd) -> RedisResult<Vec<(String, Value)>> {
        ask_every_master(&self.connection, command).await
    }

    pub(super) async fn ask_master(&self, address: &str, command: &Cmd) -> RedisResult<Value> {
        let Some((host, Ok(port))) = address.rsplit_once(':').map(|(host, port)| (host, port.parse())) else {
            return Err((ErrorKind::InvalidClientConfig, "a master without an address").into());
        };
        let route = SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port };
        let route = RoutingInfo::SingleNode(route);
        self.connection.clone().route_command(command.clone(), route).await.and_then(without_error)
    }

    pub(super) fn is_connected(&self) -> bool {
        self.watched.connected.load(Ordering::Acquire)
    }

    pub(super) fn store_changes(&self) -> u64 {
        self.watched.store_changes.load(Ordering::Acquire)
    }
}

impl Masters {
    async fn read(connection: &ClusterConnection) -> RedisResult<Self> {
        let nodes: String = redis::cmd("CLUSTER").arg("NODES").query_async(&mut connection.clone()).await?;
        let mut identities = BTreeSet::new();
        for (_, info) in ask_every_master(connection, &redis::cmd("INFO")).await? {
            identities.insert(Facts::parse(&redis::from_redis_value::<String>(info)?).identity);
        }
        Ok(Self { nodes: nodes_with_slots(&nodes), identities })
    }
}

async fn watch(connection: ClusterConnection, watched: Arc<Watched>, mut known: Masters) {
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        match Masters::read(&connection).await {
            Ok(masters) => {
                if masters != known {
                    tracing::warn!(nodes = ?masters.nodes, "the Redis Cluster has other masters");
                    known = masters;
                    watched.store_changes.fetch_add(1, Ordering::AcqRel);
                }
                watched.connected.store(true, Ordering::Release);
            }
            Err(error) => {
                if watched.connected.swap(false, Ordering::AcqRel) {
                    tracing::warn!(%error, "the Redis Cluster does not answer");
                }
            }
        }
    }
}

async fn ask_every_master(
    connection: &ClusterConnection,
    command: &Cmd,
) -> RedisResult<Vec<(String, Value)>> {
    let everyone = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
    let Value::Map(answers) = connection.clone().route_command(command.clone(), everyone).await? else {
        return Err((ErrorKind::UnexpectedReturnType, "no answer for each master").into());
    };
    let named = |(address, answer)| Ok((redis::from_redis_value(address)?, without_error(answer)?));
    answers.into_iter().map(named).collect()
}

/// Reads CLUSTER NODES: `<id> <address> <flags> <master> <ping> <pong> <epoch> <link> <slot> <slot> …`.
fn nodes_with_slots(nodes: &str) -> BTreeSet<String> {
    nodes
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let id = fields.next()?;
            let is_master = fields.nth(1)?.split(',').any(|flag| flag == "master");
            let has_slots = fields.nth(5).is_some();
            (is_master && has_slots).then(|| id.to_owned())
        })
        .collect()
}

/// The Cluster is being rearranged, or the node is not there yet; nothing was done.
fn is_worth_another_try(error: &RedisError) -> bool {
    let being_rearranged = [
        ErrorKind::Server(ServerErrorKind::Moved),
        ErrorKind::Server(ServerErrorKind::Ask),
        ErrorKind::Server(ServerErrorKind::TryAgain),
        ErrorKind::Server(ServerErrorKind::ClusterDown),
        ErrorKind::Server(ServerErrorKind::MasterDown),
        ErrorKind::Server(ServerErrorKind::ReadOnly),
        ErrorKind::ClusterConnectionNotFound,
    ];
    being_rearranged.contains(&error.kind()) || error.is_connection_refusal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::judgement::judge;
    use interlock_backend::Effect;

    #[test]
    fn only_masters_with_slots_count() {
        let nodes = "aa 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-5460\n\
            bb 127.0.0.1:2@3 master,fail - 0 0 2 disconnected\n\
            cc 127.0.0.1:3@4 slave aa 0 0 1 connected\n\
            dd 127.0.0.1:4@5 master - 0 0 3 connected 5461-10922 [93->-bb]\n";
        assert_eq!(nodes_with_slots(nodes), BTreeSet::from(["aa".to_owned(), "dd".to_owned()]));
    }

    #[test]
    fn nothing_that_may_have_been_done_is_sent_again() {
        for kind in [
            ErrorKind::Server(ServerErrorKind::Moved),
            ErrorKind::Server(ServerErrorKind::TryAgain),
            ErrorKind::Server(ServerErrorKind::ClusterDown),
            ErrorKind::Server(ServerErrorKind::ReadOnly),
            ErrorKind::Server(ServerErrorKind::ResponseError),
            ErrorKind::ClusterConnectionNotFound,
            ErrorKind::Io,
            ErrorKind::Parse,
        ] {
            let error: RedisError = (kind, "test").into();
            assert!(!is_worth_another_try(&error) || judge(&error).effect == Effect::NotDone, "{kind:?}");
        }
    }
}
