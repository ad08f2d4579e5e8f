//! Many at once: everybody is ready before anybody is let go.

use std::sync::Arc;
use std::time::Instant;

use interlock_api::client::Client;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::contention::trace::{Recorder, Trace};

/// Lets all contenders go at the same moment, and tells what they saw until the last has ended or the time is over.
pub(super) async fn burst<F, J>(recorder: &Recorder, order: &[u32], until: Instant, journey: F) -> Trace
where
    F: Fn(u32) -> J,
    J: Future<Output = ()> + Send + 'static,
{
    let ready = Arc::new(Barrier::new(order.len() + 1));
    let go = CancellationToken::new();
    let mut tasks = JoinSet::new();
    for &contender in order {
        let (ready, go, journey) = (ready.clone(), go.clone(), journey(contender));
        tasks.spawn(async move {
            ready.wait().await;
            go.cancelled().await;
            journey.await;
        });
    }
    ready.wait().await;
    recorder.begin();
    go.cancel();
    let all = async { while tasks.join_next().await.is_some() {} };
    let is_cut = tokio::time::timeout_at(until.into(), all).await.is_err();
    let contenders = u32::try_from(order.len()).unwrap_or(u32::MAX);
    let trace = recorder.trace(contenders, is_cut);
    tasks.shutdown().await;
    trace
}

/// Opens connections, so that none has to be opened when everybody is let go.
pub(super) async fn warm_up(client: &Client, connections: u32) {
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let client = client.clone();
        tasks.spawn(async move { client.is_alive().await });
    }
    // A server that does not answer here will be heard of soon enough.
    while tasks.join_next().await.is_some() {}
}
