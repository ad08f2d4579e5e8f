//! A Redis cluster of primaries, without replicas.

use anyhow::{Result, ensure};

use crate::redis::{Mode, Redis, RedisOptions, Settings};
use crate::waiting::{Look, until};

const SLOTS: usize = 16_384;

/// Dropping it kills every node.
#[must_use = "dropping it kills the servers"]
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts `nodes` servers that share the slots evenly, in order. Returns when all of them serve.
    pub async fn start(nodes: usize) -> Result<Self> {
        ensure!(nodes > 0, "a cluster has at least one node");
        let mut cluster = Self { nodes: Vec::with_capacity(nodes) };
        for _ in 0..nodes {
            cluster.nodes.push(Redis::start_with(settings()).await?);
        }
        cluster.share_slots().await?;
        cluster.introduce().await?;
        cluster.serves().await?;
        Ok(cluster)
    }

    /// One `redis://127.0.0.1:PORT` per node.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::url).collect()
    }

    /// `redis://127.0.0.1:PORT,127.0.0.1:PORT,…`: all nodes in one.
    #[must_use]
    pub fn url(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis://{}", nodes.join(","))
    }

    /// Asks that node and no other: for a key of another node the answer is an error, `MOVED`.
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
            // Epochs that differ from the start spare the nodes from resolving a conflict.
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

    async fn serves(&self) -> Result<()> {
        let count = self.nodes.len();
        let wanted = [
            "cluster_state:ok".to_owned(),
            format!("cluster_slots_ok:{SLOTS}"),
            format!("cluster_known_nodes:{count}"),
            format!("cluster_size:{count}"),
        ];
        let wanted = &wanted;
        for node in &self.nodes {
            let look = || async move {
                let told = node.command(&["CLUSTER", "INFO"]).await?;
                let is_ready = wanted.iter().all(|line| told.lines().any(|told| told.trim_end() == line));
                Ok(if is_ready { Look::Seen(()) } else { Look::NotYet(told) })
            };
            until("every node of the cluster serves", look).await?;
        }
        Ok(())
    }
}

fn settings() -> Settings {
    let lines = ["cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 2000"];
    Settings {
        options: RedisOptions::default(),
        mode: Mode::Store,
        lines: lines.into_iter().map(str::to_owned).collect(),
    }
}
