//! One tenant starts runs one by one, alone or while another tenant sends a storm of starts.
//!
//! The storm has a fixed rate and does not wait for responses: otherwise a faster server would get a stronger storm.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use interlock_api::client::{Client, Result};
use serde_json::json;
use tokio::task::JoinSet;

use super::burst::warm_up;
use super::{LoadGenerator, ServerCounters, WORKFLOW, limit_runs, save_workflow};
use crate::contention::trace::{LoadTrace, TraceRecorder};

/// The cap of the storming tenant: the server refuses all its other starts.
const STORM_RUNS_MAX: u32 = 2;

/// How long the storm lasts before the first probe.
const STORM_LEAD: Duration = Duration::from_millis(100);

const SECOND: Duration = Duration::from_secs(1);

impl LoadGenerator {
    /// A contender is a start of the tenant that does not storm.
    pub(super) async fn probes(&self, probes: u32, storm_per_second: u32) -> Result<LoadTrace> {
        let client = self.client(&self.tenant)?;
        save_workflow(&client, false).await?;
        limit_runs(&client, &self.tenant, Some(probes.saturating_add(1))).await?;
        let storm_client = self.client(&self.neighbour)?;
        save_workflow(&storm_client, false).await?;
        limit_runs(&storm_client, &self.neighbour, Some(STORM_RUNS_MAX)).await?;
        warm_up(&client, storm_per_second / 4 + 1).await;
        let counters = ServerCounters::read(&client).await?;
        let (sent, until, started) = (Arc::new(AtomicU64::new(0)), self.until(), Instant::now());
        let mut storm = JoinSet::new();
        if storm_per_second > 0 {
            let start = move || start_and_ignore(storm_client.clone());
            storm.spawn(send_at_rate(SECOND / storm_per_second, sent.clone(), start));
            tokio::time::sleep(STORM_LEAD).await;
        }
        let recorder = TraceRecorder::default();
        let probing = async {
            for _ in 0..probes {
                let input = json!({});
                let request = client.start_run(WORKFLOW, &input, None);
                if recorder.attempt(1, request).await.is_ok() {
                    recorder.served();
                }
            }
        };
        let is_cut = tokio::time::timeout_at(until.into(), probing).await.is_err();
        let (elapsed, background) = (started.elapsed(), sent.load(Ordering::Relaxed));
        storm.shutdown().await;
        let mut trace = recorder.trace(probes, is_cut);
        counters.add_difference(&client, &mut trace).await?;
        (trace.background, trace.has_unseen_arrivals) = (background, true);
        if storm_per_second > 0 {
            let seconds = elapsed.as_secs_f64();
            trace.notes.push(format!(
                "burst of another tenant: {background} starts in {seconds:.1} s, {storm_per_second} per second"
            ));
        }
        Ok(trace)
    }
}

async fn start_and_ignore(client: Client) {
    let _response = client.start_run(WORKFLOW, &json!({}), None).await;
}

/// Sends a start per interval, whether or not earlier ones have a response, and counts them. It catches up when late.
async fn send_at_rate<S>(interval: Duration, sent: Arc<AtomicU64>, start: impl Fn() -> S)
where
    S: Future<Output = ()> + Send + 'static,
{
    let (mut ticks, mut open) = (tokio::time::interval(interval), JoinSet::new());
    loop {
        ticks.tick().await;
        open.spawn(start());
        sent.fetch_add(1, Ordering::Relaxed);
        while open.try_join_next().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;

    async fn sent_in_a_second(start: impl Fn() -> Pin<Box<dyn Future<Output = ()> + Send>>) -> u64 {
        let sent = Arc::new(AtomicU64::new(0));
        let storm = send_at_rate(Duration::from_millis(10), sent.clone(), start);
        assert!(tokio::time::timeout(Duration::from_millis(995), storm).await.is_err(), "a storm has no end");
        sent.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn a_storm_is_as_strong_against_a_slow_server_as_against_a_fast_one() {
        assert_eq!(sent_in_a_second(|| Box::pin(std::future::ready(()))).await, 100);
        assert_eq!(sent_in_a_second(|| Box::pin(std::future::pending())).await, 100);
    }
}
