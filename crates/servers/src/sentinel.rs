//! A Redis primary and its replica, watched by three sentinels.

use anyhow::Result;
use interlock_poll::try_until;

use crate::redis::{Mode, Redis, RedisOptions, RedisSettings};

/// The sentinels' name of the primary.
const SERVICE: &str = "main";
const SENTINELS: usize = 3;

/// Dropping it kills all five servers.
#[must_use = "dropping it kills the servers"]
pub struct Sentinel {
    // Fields are dropped in order: the sentinels first, or they would fail over.
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
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port())).collect();
        format!("redis+sentinel://{}/{SERVICE}", hosts.join(","))
    }

    /// The server that was the primary at the start.
    pub fn primary(&mut self) -> &mut Redis {
        &mut self.primary
    }

    /// The server that was the replica at the start.
    pub fn replica(&mut self) -> &mut Redis {
        &mut self.replica
    }

    /// Cuts the replica off, so that a failover loses what the primary acknowledges from now on. Kill the primary
    /// within ten seconds: later, the sentinels do not promote a replica that is so old.
    ///
    /// A paused replica is not cut off: the kernel keeps what the primary sends, and the replica reads it when it is
    /// resumed, even if the primary is dead by then.
    pub async fn cut_replication(&self) -> Result<()> {
        // The primary has no password and refuses a replica that sends one.
        self.replica.command(&["CONFIG", "SET", "masterauth", "refused"]).await?;
        self.replica.command(&["CLIENT", "KILL", "TYPE", "master"]).await?;
        wait_for(&self.replica, &["INFO", "replication"], "master_link_status:down").await?;
        wait_for(&self.primary, &["INFO", "replication"], "connected_slaves:0").await
    }

    /// Returns when all sentinels name the replica as the primary and it has that role.
    pub async fn wait_for_failover(&self) -> Result<()> {
        let port = self.replica.port().to_string();
        for sentinel in &self.sentinels {
            wait_for(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE], &port).await?;
        }
        wait_for(&self.replica, &["INFO", "replication"], "role:master").await
    }
}

async fn store(lines: Vec<String>) -> Result<Redis> {
    Redis::start_with(RedisSettings { options: RedisOptions::default(), mode: Mode::Store, lines }).await
}

/// Two of three sentinels decide, one second after the primary stops answering.
fn watching(primary: u16) -> RedisSettings {
    let lines = vec![
        format!("sentinel monitor {SERVICE} 127.0.0.1 {primary} 2"),
        format!("sentinel down-after-milliseconds {SERVICE} 1000"),
        format!("sentinel failover-timeout {SERVICE} 3000"),
    ];
    RedisSettings { options: RedisOptions::default(), mode: Mode::Sentinel, lines }
}

/// Sends the command until a line of the answer contains `wanted`.
async fn wait_for(server: &Redis, command: &[&str], wanted: &str) -> Result<()> {
    let look = async || match server.command(command).await {
        Ok(answer) if !answer.lines().any(|line| line.contains(wanted)) => Err(answer),
        answered => Ok(answered),
    };
    try_until(&format!("{command:?} answers {wanted}"), look).await??;
    Ok(())
}
