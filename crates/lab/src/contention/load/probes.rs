//! One tenant starts run after run, while another storms or does not.

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

/// So many refusals are waited for before the first probe: the storm has begun.
const STORM_BEGUN: u64 = 20;

const LOOK: Duration = Duration::from_millis(5);

impl Stage {
    /// A contender is a start of the tenant that does not storm.
    pub(super) async fn probes(&self, probes: u32, stormers: u32) -> Result<Trace> {
        let client = self.client(&self.tenant)?;
        self.save_workflow(&client, false).await?;
        limit_runs(&client, &self.tenant, Some(probes.saturating_add(1))).await?;
        let stormy = self.client(&self.neighbour)?;
        self.save_workflow(&stormy, false).await?;
        limit_runs(&stormy, &self.neighbour, Some(STORM_RUNS_MAX)).await?;
        warm_up(&client, stormers + 1).await;
        let before = Counters::before(&client).await?;
        let (storm, until) = (Arc::new(AtomicU64::new(0)), self.until());
        let mut tasks = JoinSet::new();
        for _ in 0..stormers {
            tasks.spawn(start_without_end(stormy.clone(), storm.clone()));
        }
        while stormers > 0 && storm.load(Ordering::Relaxed) < STORM_BEGUN && Instant::now() < until {
            tokio::time::sleep(LOOK).await;
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
        tasks.shutdown().await;
        let mut trace = recorder.trace(probes, is_cut);
        before.add_to(&mut trace, &Counters::after(&client).await?);
        trace.background = storm.load(Ordering::Relaxed);
        if stormers > 0 {
            let clients = format!("{} starts of {stormers} clients beside it", trace.background);
            trace.notes.push(clients);
        }
        Ok(trace)
    }
}

async fn start_without_end(client: Client, answered: Arc<AtomicU64>) {
    loop {
        // What it is answered makes no difference to a storm.
        let _answer = client.start_run(WORKFLOW, &json!({}), None).await;
        answered.fetch_add(1, Ordering::Relaxed);
    }
}
