//! A Redis cluster of primaries, without replicas.

use anyhow::{Result, ensure};
use interlock_poll::try_until;

use crate::redis::{Mode, Redis, RedisOptions, RedisSettings};

const SLOTS: usize = 16_384;

/// Dropping it kills every node.
#[must_use = "dropping it kills the servers"]
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts `nodes` servers that share the slots evenly, in order. Returns when all of them are ready.
    pub async fn start(nodes: usize) -> Result<Self> {
        ensure!(nodes > 0, "a cluster has at least one node");
        let mut cluster = Self { nodes: Vec::with_capacity(nodes) };
        for _ in 0..nodes {
            cluster.nodes.push(Redis::start_with(settings()).await?);
        }
        cluster.share_slots().await?;
        cluster.introduce().await?;
        cluster.is_ready().await?;
        Ok(cluster)
    }

    /// One `redis://127.0.0.1:PORT` per node.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::url).collect()
    }

    /// `redis://127.0.0.1:PORT,127.0.0.1:PORT,…`: all nodes in one.
    pub fn url(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis://{}", nodes.join(","))
    }

    /// Sends a command to one node. For a key of another node the answer is the error `MOVED`.
    pub async fn command_on(&self, node: usize, arguments: &[&str]) -> Result<String> {
        self.nodes[node].command(arguments).await
    }

    pub fn nodes_mut(&mut self) -> &mut [Redis] {
        &mut self.nodes
    }

    async fn share_slots(&self) -> Result<()> {
        let count = self.nodes.len();
        for (number, node) in self.nodes.iter().enumerate() {
            let first = (number * SLOTS / count).to_string();
            let last = ((number + 1) * SLOTS / count - 1).to_string();
            node.command(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await?;
            // Different epochs from the start avoid a conflict that the nodes would have to resolve.
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]).await?;
        }
        Ok(())
    }

    async fn introduce(&self) -> Result<()> {
        let (first, others) = self.nodes.split_first().expect("a cluster has at least one node");
        for other in others {
            first.command(&["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()]).await?;
        }
        Ok(())
    }

    async fn is_ready(&self) -> Result<()> {
        let count = self.nodes.len();
        let wanted = [
            "cluster_state:ok".to_owned(),
            format!("cluster_slots_ok:{SLOTS}"),
            format!("cluster_known_nodes:{count}"),
            format!("cluster_size:{count}"),
        ];
        let wanted = &wanted;
        for node in &self.nodes {
            let has_all =
                |info: &str| wanted.iter().all(|line| info.lines().any(|found| found.trim_end() == line));
            let look = async || match node.command(&["CLUSTER", "INFO"]).await {
                Ok(info) if !has_all(&info) => Err(info),
                answered => Ok(answered),
            };
            try_until("every node of the cluster is ready", look).await??;
        }
        Ok(())
    }
}

fn settings() -> RedisSettings {
    let lines = ["cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 2000"];
    RedisSettings {
        options: RedisOptions::default(),
        mode: Mode::Store,
        lines: lines.into_iter().map(str::to_owned).collect(),
    }
}
