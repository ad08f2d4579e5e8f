//! One tenant starts run after run, while another storms or does not.
//!
//! The storm sends at its own pace and waits for no answer: who is answered sooner would storm more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use interlock_api::client::{Client, Result};
use serde_json::json;
use tokio::task::JoinSet;

use super::burst::warm_up;
use super::{Counters, Stage, WORKFLOW, limit_runs};
use crate::contention::trace::{Recorder, Trace};

/// What the storming tenant may have. All its other starts are refused.
const STORM_RUNS_MAX: u32 = 2;

/// So long it storms before the first probe.
const STORM_LEAD: Duration = Duration::from_millis(100);

const SECOND: Duration = Duration::from_secs(1);

impl Stage {
    /// A contender is a start of the tenant that does not storm.
    pub(super) async fn probes(&self, probes: u32, storm_per_second: u32) -> Result<Trace> {
        let client = self.client(&self.tenant)?;
        self.save_workflow(&client, false).await?;
        limit_runs(&client, &self.tenant, Some(probes.saturating_add(1))).await?;
        let stormy = self.client(&self.neighbour)?;
        self.save_workflow(&stormy, false).await?;
        limit_runs(&stormy, &self.neighbour, Some(STORM_RUNS_MAX)).await?;
        warm_up(&client, storm_per_second / 4 + 1).await;
        let before = Counters::before(&client).await?;
        let (sent, until, begun) = (Arc::new(AtomicU64::new(0)), self.until(), Instant::now());
        let mut storm = JoinSet::new();
        if storm_per_second > 0 {
            let start = move || start_somehow(stormy.clone());
            storm.spawn(keep_pace(SECOND / storm_per_second, sent.clone(), start));
            tokio::time::sleep(STORM_LEAD).await;
        }
        let recorder = Recorder::default();
        let probing = async {
            for contender in 0..probes {
                let input = json!({});
                let request = client.start_run(WORKFLOW, &input, None);
                if recorder.attempt(contender, 1, request).await.1.is_ok() {
                    recorder.served();
                }
            }
        };
        let is_cut = tokio::time::timeout_at(until.into(), probing).await.is_err();
        let (stormed, background) = (begun.elapsed(), sent.load(Ordering::Relaxed));
        storm.shutdown().await;
        let mut trace = recorder.trace(probes, is_cut);
        before.add_to(&mut trace, &Counters::after(&client).await?);
        (trace.background, trace.has_unseen_arrivals) = (background, true);
        if storm_per_second > 0 {
            let seconds = stormed.as_secs_f64();
            trace.notes.push(format!(
                "{background} starts of another tenant beside it in {seconds:.1} s, {storm_per_second} a second"
            ));
        }
        Ok(trace)
    }
}

async fn start_somehow(client: Client) {
    // What it is answered makes no difference to a storm.
    let _answer = client.start_run(WORKFLOW, &json!({}), None).await;
}

/// Begins a start every so often, whatever became of those before, and counts them. Whoever was late catches up.
async fn keep_pace<S>(every: Duration, sent: Arc<AtomicU64>, start: impl Fn() -> S)
where
    S: Future<Output = ()> + Send + 'static,
{
    let (mut pace, mut open) = (tokio::time::interval(every), JoinSet::new());
    loop {
        pace.tick().await;
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
        let storm = keep_pace(Duration::from_millis(10), sent.clone(), start);
        assert!(tokio::time::timeout(Duration::from_millis(995), storm).await.is_err(), "a storm has no end");
        sent.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn a_storm_is_as_strong_against_a_slow_server_as_against_a_fast_one() {
        assert_eq!(sent_in_a_second(|| Box::pin(std::future::ready(()))).await, 100);
        assert_eq!(sent_in_a_second(|| Box::pin(std::future::pending())).await, 100);
    }
}
