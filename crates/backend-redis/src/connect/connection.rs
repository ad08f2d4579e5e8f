//! The connection that the rest of the crate sends its commands over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use interlock_backend::Effect;
use redis::{Cmd, RedisError, RedisResult, Value};
use tokio::sync::Notify;

use super::address::Address;
use super::checks;
use super::cluster::Cluster;
use super::dialer::Dialer;
use super::error::{OpenError, SendError, SendErrorKind};
use super::finder::Finder;
use super::judgement::judge;
use super::lane::Lane;
use super::live::Live;
use super::master::MasterConnection;
use super::settings::{ConnectSettings, Durability, PREFIX_DEFAULT};

/// A connection to Redis that is made again when it breaks. Clones share it; the last one dropped closes it.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    lane: Lane,
    address: Address,
    replicas: Option<ReplicaWait>,
    key_prefix: String,
    lock_prefix: String,
    commands_sent: AtomicU64,
    warnings: Vec<String>,
    durability_in_words: String,
}

/// How many replicas must have a write, and how long they may take.
struct ReplicaWait {
    number: u32,
    limit: Duration,
    /// Its own connection for what waits for no replica: WAIT stops everything behind it on the same one.
    unwaited: Lane,
}

impl Connection {
    /// Connects, and checks that the store can be trusted with runs.
    pub fn open(settings: ConnectSettings) -> BoxFuture<'static, Result<Self, OpenError>> {
        // Boxed, so that it is compiled here and not wherever it is awaited. The same below.
        Box::pin(Self::connect(settings))
    }

    async fn connect(settings: ConnectSettings) -> Result<Self, OpenError> {
        let (key_prefix, lock_prefix) = prefixes(&settings.prefix)?;
        let lane = open_lane(&settings).await?;
        let schema_key = format!("{key_prefix}sys:schema");
        let findings = checks::check(&lane, &settings.address, settings.durability, &schema_key).await?;
        for warning in &findings.warnings {
            tracing::warn!("{warning}");
        }
        let replicas = match settings.durability {
            Durability::Replicas(number) => {
                let unwaited = open_lane(&settings).await?;
                Some(ReplicaWait { number, limit: settings.replica_wait(), unwaited })
            }
            Durability::AsConfigured | Durability::Fsync => None,
        };
        let shared = Shared {
            lane,
            address: settings.address,
            replicas,
            key_prefix,
            lock_prefix,
            commands_sent: AtomicU64::new(0),
            warnings: findings.warnings,
            durability_in_words: findings.durability_in_words,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// One command, one answer. `writes`: it may change something; the chosen durability is then waited for.
    pub fn send<'a>(&'a self, command: &'a Cmd, writes: bool) -> BoxFuture<'a, Result<Value, SendError>> {
        Box::pin(self.send_on_lane(command, writes))
    }

    async fn send_on_lane(&self, command: &Cmd, writes: bool) -> Result<Value, SendError> {
        match (self.lane(writes), self.shared.replicas.as_ref().filter(|_| writes)) {
            (Lane::Master { link, .. }, Some(wait)) => {
                let live = self.live(link).await?;
                self.count(1);
                self.send_to_replicas(&live, command, wait).await
            }
            (Lane::Master { link, .. }, None) => {
                let live = self.live(link).await?;
                self.count(1);
                live.send(command).await.map_err(|error| self.explain(&error))
            }
            (Lane::Cluster(cluster), _) => {
                self.count(1);
                cluster.send(command).await.map_err(|error| self.explain(&error))
            }
        }
    }

    /// Several reads at once, answers in order: one round trip to a master, side by side on a Cluster.
    pub async fn send_all(&self, commands: &[Cmd]) -> Vec<Result<Value, SendError>> {
        if commands.is_empty() {
            return Vec::new();
        }
        match self.lane(false) {
            Lane::Master { link, .. } => self.send_pipeline(link, commands).await.unwrap_or_else(|error| {
                std::iter::repeat_with(|| Err(error.clone())).take(commands.len()).collect()
            }),
            Lane::Cluster(_) => join_all(commands.iter().map(|command| self.send(command, false))).await,
        }
    }

    /// A command for the servers themselves, and the answer of each.
    pub(crate) async fn ask_every_master(&self, command: &Cmd) -> Result<Vec<(String, Value)>, SendError> {
        self.shared.lane.ask_every_master(command).await.map_err(|error| self.explain(&error))
    }

    /// A command for one of them, by the address that it was named with.
    pub(crate) async fn ask_master(&self, address: &str, command: &Cmd) -> Result<Value, SendError> {
        self.count(1);
        self.shared.lane.ask_master(address, command).await.map_err(|error| self.explain(&error))
    }

    /// Every command of the callers that went to Redis. Not counted: what sets a connection up or watches it, WAIT,
    /// and what the connection itself sends again on a Cluster.
    pub fn commands_sent(&self) -> u64 {
        self.shared.commands_sent.load(Ordering::Relaxed)
    }

    pub fn is_cluster(&self) -> bool {
        matches!(self.shared.lane, Lane::Cluster(_))
    }

    pub fn is_connected(&self) -> bool {
        self.shared.lane.is_connected()
    }

    /// Raised whenever the store came back as another one: another run id, another replication id, another set of
    /// Cluster masters. On a Cluster that is looked at every two seconds.
    pub fn store_changes(&self) -> u64 {
        self.shared.lane.store_changes()
    }

    /// What an acknowledged write is worth, by the settings that the server had at the start.
    pub fn durability_in_words(&self) -> String {
        self.shared.durability_in_words.clone()
    }

    /// What the checks at the start found that was no reason to refuse.
    pub fn warnings(&self) -> &[String] {
        &self.shared.warnings
    }

    /// What stands before every key but locks: nothing with the default prefix, else `<prefix>:`.
    pub fn key_prefix(&self) -> &str {
        &self.shared.key_prefix
    }

    /// What stands before the name of every lock: `<prefix>:`.
    pub fn lock_prefix(&self) -> &str {
        &self.shared.lock_prefix
    }

    fn lane(&self, writes: bool) -> &Lane {
        match &self.shared.replicas {
            Some(replicas) if !writes => &replicas.unwaited,
            Some(_) | None => &self.shared.lane,
        }
    }

    async fn live(&self, link: &MasterConnection) -> Result<Live, SendError> {
        link.live().await.ok_or_else(|| SendError {
            effect: Effect::NotDone,
            kind: SendErrorKind::NotConnected,
            reason: format!("there is no connection to Redis at {}", self.shared.address),
        })
    }

    async fn send_pipeline(
        &self,
        link: &MasterConnection,
        commands: &[Cmd],
    ) -> Result<Vec<Result<Value, SendError>>, SendError> {
        let live = self.live(link).await?;
        self.count(commands.len() as u64);
        let mut pipeline = redis::Pipeline::with_capacity(commands.len());
        for command in commands {
            pipeline.add_command(command.clone());
        }
        let answers = live.send_pipeline(&pipeline).await.map_err(|error| self.explain(&error))?;
        Ok(answers.into_iter().map(|answer| answer.map_err(|error| self.explain(&error))).collect())
    }

    /// The command with WAIT right behind it, so that nothing comes between: WAIT speaks of the connection's writes.
    async fn send_to_replicas(
        &self,
        live: &Live,
        command: &Cmd,
        wait: &ReplicaWait,
    ) -> Result<Value, SendError> {
        let mut pipeline = redis::pipe();
        pipeline.add_command(command.clone());
        pipeline.cmd("WAIT").arg(wait.number).arg(u64::try_from(wait.limit.as_millis()).unwrap_or(u64::MAX));
        let answers = live.send_pipeline(&pipeline).await.map_err(|error| self.explain(&error))?;
        let Ok([answer, replicas]) = <[RedisResult<Value>; 2]>::try_from(answers) else {
            return Err(lost("Redis did not answer both the command and WAIT".to_owned()));
        };
        let answer = answer.map_err(|error| self.explain(&error))?;
        match replicas.and_then(|value| Ok(redis::from_redis_value::<u32>(value)?)) {
            Ok(have) if have >= wait.number => Ok(answer),
            Ok(have) => Err(lost(format!("written, but only {have} of {} replicas have it", wait.number))),
            Err(error) => {
                let reason = self.explain(&error).reason;
                Err(lost(format!("written, but the replicas could not be waited for: {reason}")))
            }
        }
    }

    fn count(&self, commands: u64) {
        self.shared.commands_sent.fetch_add(commands, Ordering::Relaxed);
    }

    fn explain(&self, error: &RedisError) -> SendError {
        let judgement = judge(error);
        let reason = self.shared.address.hide_password(&error.to_string());
        SendError { effect: judgement.effect, kind: judgement.kind, reason }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Connection({})", self.shared.address)
    }
}

fn lost(reason: String) -> SendError {
    SendError { effect: Effect::Unknown, kind: SendErrorKind::Lost, reason }
}

/// Finds out by itself whether it is a Cluster.
async fn open_lane(settings: &ConnectSettings) -> Result<Lane, OpenError> {
    let finder = Finder::new(Dialer::new(settings).await?);
    let noticed = Arc::new(Notify::new());
    let found = finder.find(&noticed).await?;
    let address = found.host.to_string();
    if found.facts.is_cluster {
        if let Durability::Replicas(_) = settings.durability {
            return Err(OpenError::NoReplicasOnCluster);
        }
        let dialer = finder.dialer();
        let cluster =
            Cluster::open(dialer, settings).await.map_err(|error| dialer.explain(&found.host, &error))?;
        return Ok(Lane::Cluster(cluster));
    }
    if settings.address.hosts().len() > 1 && settings.address.master().is_none() {
        return Err(OpenError::NotCluster { address });
    }
    Ok(Lane::Master { link: MasterConnection::keep(finder, found, noticed, settings), address })
}

/// What stands before keys and before locks. Braces are refused: they would move every key into one Cluster slot.
fn prefixes(prefix: &str) -> Result<(String, String), OpenError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !(1..=64).contains(&prefix.len()) || !prefix.bytes().all(is_allowed) {
        return Err(OpenError::Prefix);
    }
    let with_colon = format!("{prefix}:");
    let before_keys = if prefix == PREFIX_DEFAULT { String::new() } else { with_colon.clone() };
    Ok((before_keys, with_colon))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_locks_carry_the_default_prefix() {
        assert_eq!(prefixes("cordum"), Ok((String::new(), "cordum:".to_owned())));
        assert_eq!(prefixes("blue"), Ok(("blue:".to_owned(), "blue:".to_owned())));
        for wrong in ["", "a:b", "{a}", "a b", &"x".repeat(65)] {
            assert_eq!(prefixes(wrong), Err(OpenError::Prefix), "{wrong}");
        }
    }
}
