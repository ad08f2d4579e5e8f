//! What an idle active run costs in the server's memory.

use std::path::Path;

use anyhow::{Result, bail};
use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::server::{Server, WORKFLOW};

const CLIENTS: usize = 32;
/// Started before the first look, so that caches and pools are not counted as runs.
const WARM_UP: usize = 5_000;

#[derive(Debug, Clone)]
pub(crate) struct Memory {
    pub(crate) runs: usize,
    pub(crate) before_kib: u64,
    pub(crate) after_kib: u64,
}

impl Memory {
    pub(crate) fn bytes_per_run(&self) -> u64 {
        self.after_kib.saturating_sub(self.before_kib) * 1_024 / self.runs.max(1) as u64
    }
}

pub(crate) async fn per_idle_run(binary: &Path, runs: usize) -> Result<Memory> {
    let server = Server::interlock(binary, 1_000_000_000).await?;
    start(&server, WARM_UP).await?;
    let before_kib = server.resident_kib()?;
    start(&server, runs).await?;
    Ok(Memory { runs, before_kib, after_kib: server.resident_kib()? })
}

async fn start(server: &Server, runs: usize) -> Result<()> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let share = runs / CLIENTS + usize::from(client < runs % CLIENTS);
        clients.spawn(start_some(server.address.clone(), share));
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    Ok(())
}

async fn start_some(address: String, runs: usize) -> Result<()> {
    let mut connection = Connection::open(&address).await?;
    let path = format!("/api/v1/workflows/{WORKFLOW}/runs");
    for _ in 0..runs {
        let (status, body) = connection.send(Method::POST, &path, Bytes::from_static(b"{}")).await?;
        if status != StatusCode::OK {
            bail!("a start answered {status}: {}", String::from_utf8_lossy(&body));
        }
    }
    Ok(())
}
