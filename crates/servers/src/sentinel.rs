//! A Redis primary and its replica, watched by three sentinels.

use anyhow::Result;

use crate::redis::{Mode, Redis, RedisOptions, Settings};
use crate::waiting::{Look, until};

/// How the sentinels call the primary.
const SERVICE: &str = "main";
const SENTINELS: usize = 3;

/// Dropping it kills all five servers.
#[must_use = "dropping it kills the servers"]
pub struct Sentinel {
    // Before the servers: fields are dropped in this order, and the sentinels would fail over meanwhile.
    sentinels: Vec<Redis>,
    primary: Redis,
    replica: Redis,
}

impl Sentinel {
    /// Returns when the replica follows the primary and each sentinel knows both and the other sentinels.
    pub async fn start() -> Result<Self> {
        let primary = store(Vec::new()).await?;
        let replica = store(vec![format!("replicaof 127.0.0.1 {}", primary.port())]).await?;
        wait_for(&replica, &["INFO", "replication"], "master_link_status:up").await?;
        let mut sentinels = Vec::with_capacity(SENTINELS);
        for _ in 0..SENTINELS {
            sentinels.push(Redis::start_with(watching(primary.port())).await?);
        }
        let known =
            format!("name={SERVICE},status=ok,address=127.0.0.1:{},slaves=1,sentinels=3", primary.port());
        for sentinel in &sentinels {
            wait_for(sentinel, &["INFO", "sentinel"], &known).await?;
        }
        Ok(Self { sentinels, primary, replica })
    }

    /// `redis+sentinel://127.0.0.1:PORT,127.0.0.1:PORT,127.0.0.1:PORT/main`.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port())).collect();
        format!("redis+sentinel://{}/{SERVICE}", hosts.join(","))
    }

    /// The server that was the primary at the start, whatever it is now.
    pub fn primary(&mut self) -> &mut Redis {
        &mut self.primary
    }

    /// The server that was the replica at the start, whatever it is now.
    pub fn replica(&mut self) -> &mut Redis {
        &mut self.replica
    }

    /// From here on the replica does not see what the primary answers, so a failover loses it. Kill the primary
    /// within ten seconds: later, the sentinels find the replica too old to take over.
    ///
    /// Pausing the replica does not do this: the kernel keeps what the primary sends, and the replica reads it when
    /// it is resumed, even if the primary is dead by then.
    pub async fn cut_replication(&self) -> Result<()> {
        // The primary wants no password, so it refuses a replica that gives one.
        self.replica.command(&["CONFIG", "SET", "masterauth", "refused"]).await?;
        self.replica.command(&["CLIENT", "KILL", "TYPE", "master"]).await?;
        wait_for(&self.replica, &["INFO", "replication"], "master_link_status:down").await?;
        wait_for(&self.primary, &["INFO", "replication"], "connected_slaves:0").await
    }

    /// Returns when all sentinels name the replica as the primary, and it is one.
    pub async fn wait_for_failover(&self) -> Result<()> {
        let port = self.replica.port().to_string();
        for sentinel in &self.sentinels {
            wait_for(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE], &port).await?;
        }
        wait_for(&self.replica, &["INFO", "replication"], "role:master").await
    }
}

async fn store(lines: Vec<String>) -> Result<Redis> {
    Redis::start_with(Settings { options: RedisOptions::default(), mode: Mode::Store, lines }).await
}

/// Two of three sentinels decide, a second after the primary fell silent.
fn watching(primary: u16) -> Settings {
    let lines = vec![
        format!("sentinel monitor {SERVICE} 127.0.0.1 {primary} 2"),
        format!("sentinel down-after-milliseconds {SERVICE} 1000"),
        format!("sentinel failover-timeout {SERVICE} 3000"),
    ];
    Settings { options: RedisOptions::default(), mode: Mode::Sentinel, lines }
}

/// Asks `server` until its answer has `wanted` in a line.
async fn wait_for(server: &Redis, question: &[&str], wanted: &str) -> Result<()> {
    let look = || async move {
        let told = server.command(question).await?;
        Ok(if told.lines().any(|line| line.contains(wanted)) { Look::Seen(()) } else { Look::NotYet(told) })
    };
    until(&format!("{question:?} tells {wanted}"), look).await
}
