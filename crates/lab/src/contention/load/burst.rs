//! Many concurrent contenders that start at the same moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use interlock_api::client::{Client, Result};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::contention::trace::{LoadTrace, TraceRecorder};

/// Starts all contenders at the same moment, once all are ready, and records them until the last has finished or the
/// time is over.
pub(super) async fn burst<F, C>(
    recorder: &TraceRecorder,
    order: &[u32],
    until: Instant,
    contend: F,
) -> LoadTrace
where
    F: Fn(u32) -> C,
    C: Future<Output = ()> + Send + 'static,
{
    let ready = Arc::new(Barrier::new(order.len() + 1));
    let go = CancellationToken::new();
    let mut tasks = JoinSet::new();
    for &contender in order {
        let (ready, go, contend) = (ready.clone(), go.clone(), contend(contender));
        tasks.spawn(async move {
            ready.wait().await;
            go.cancelled().await;
            contend.await;
        });
    }
    ready.wait().await;
    recorder.start();
    go.cancel();
    let all = async { while tasks.join_next().await.is_some() {} };
    let is_cut = tokio::time::timeout_at(until.into(), all).await.is_err();
    let contenders = u32::try_from(order.len()).unwrap_or(u32::MAX);
    let trace = recorder.trace(contenders, is_cut);
    tasks.shutdown().await;
    trace
}

/// Sends a request until it succeeds, fails permanently, or no delay is left.
pub(super) async fn retry<T, F: Future<Output = Result<T>>>(
    recorder: &TraceRecorder,
    mut delays: impl Iterator<Item = Duration>,
    mut request: impl FnMut() -> F,
) -> Option<T> {
    let mut number = 1;
    loop {
        match recorder.attempt(number, request()).await {
            Ok(response) => return Some(response),
            Err(outcome) if outcome.is_retryable() => tokio::time::sleep(delays.next()?).await,
            Err(_) => return None,
        }
        number += 1;
    }
}

/// Opens connections before the burst.
pub(super) async fn warm_up(client: &Client, connections: u32) {
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let client = client.clone();
        tasks.spawn(async move { client.is_alive().await });
    }
    // Errors are ignored here: the burst itself records them.
    while tasks.join_next().await.is_some() {}
}
