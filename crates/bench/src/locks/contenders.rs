//! Many contenders for one lock at once, each for a moment.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use super::HOLD;
use super::client::LockClient;
use crate::load::{Measured, micros, sequential};
use crate::replicas::Replicas;

/// How often those ask again who do not stand in line.
const POLL: Duration = Duration::from_millis(10);

/// Each waits for its turn. Also the commands that were sent for each grant.
pub(super) async fn in_line(replicas: &Replicas, count: usize, round: usize) -> Result<(Measured, f64)> {
    contend(replicas, count, format!("line-{round}"), Manner::InLine).await
}

/// Each asks again every ten milliseconds.
pub(super) async fn polled(replicas: &Replicas, count: usize, round: usize) -> Result<(Measured, f64)> {
    contend(replicas, count, format!("polled-{round}"), Manner::Polling).await
}

#[derive(Debug, Clone, Copy)]
enum Manner {
    InLine,
    Polling,
}

async fn contend(
    replicas: &Replicas,
    count: usize,
    resource: String,
    manner: Manner,
) -> Result<(Measured, f64)> {
    let mut clients = Vec::with_capacity(count);
    for number in 0..count {
        clients.push(LockClient::connect(replicas, number).await?);
    }
    let before = replicas.commands_sent().await?;
    let began = Instant::now();
    let mut contenders = JoinSet::new();
    for client in clients {
        contenders.spawn(hold_once(client, resource.clone(), manner));
    }
    let mut waits = Vec::with_capacity(count);
    while let Some(ended) = contenders.join_next().await {
        waits.push(ended??);
    }
    let total = began.elapsed();
    let sent = replicas.commands_sent().await? - before;
    #[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^52")]
    let per_grant = sent as f64 / count as f64;
    Ok((sequential(waits, total).await?, per_grant))
}

/// Returns how long it waited.
async fn hold_once(mut client: LockClient, resource: String, manner: Manner) -> Result<u64> {
    let began = Instant::now();
    let token = match manner {
        Manner::InLine => client.acquire(&resource).await?,
        Manner::Polling => loop {
            match client.try_acquire(&resource).await? {
                Some(token) => break token,
                None => tokio::time::sleep(POLL).await,
            }
        },
    };
    let waited = micros(began);
    tokio::time::sleep(HOLD).await;
    client.release(&resource, &token).await?;
    Ok(waited)
}
