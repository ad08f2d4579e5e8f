//! Many contenders for one lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use interlock_api::client::{Client, Result};
use interlock_api::locks::{AcquireRequest, LockGrant, ReleaseRequest, WAIT_MS_MAX};
use interlock_model::lock::LockMode;
use interlock_model::retry::RetryPolicy;
use interlock_model::time::millis;

use super::burst::{burst, retry, warm_up};
use super::{LoadGenerator, ServerCounters, WORKFLOW};
use crate::contention::trace::{LoadTrace, TraceRecorder};

/// Ends the lease of a contender that is cut off while it holds the lock.
const TTL_MS: u64 = 5_000;

impl LoadGenerator {
    /// Contenders wait in the queue, or poll by the policy.
    pub(super) async fn locks(
        &self,
        contenders: u32,
        hold: Duration,
        poll: Option<RetryPolicy>,
    ) -> Result<LoadTrace> {
        let client = self.client(&self.tenant)?;
        warm_up(&client, contenders).await;
        let counters = ServerCounters::read(&client).await?;
        let (recorder, until) = (Arc::new(TraceRecorder::default()), self.until());
        let contend = |contender| {
            let (client, recorder) = (client.clone(), recorder.clone());
            let seed = self.seed.part(u64::from(contender));
            async move {
                let delays = poll.iter().flat_map(|policy| policy.schedule(seed));
                let wait_until = poll.is_none().then_some(until);
                let acquire = || acquire(&client, contender, wait_until);
                if let Some(grant) = retry(&recorder, delays, acquire).await {
                    recorder.served();
                    tokio::time::sleep(hold).await;
                    let release = ReleaseRequest { resource: grant.resource, token: grant.token };
                    // If the release fails, the lease expires.
                    let _released = client.release_lock(&release).await;
                }
            }
        };
        let mut trace = burst(&recorder, &self.order(contenders), until, contend).await;
        counters.add_difference(&client, &mut trace).await?;
        trace.notes.push("COMMANDS includes releases".to_owned());
        Ok(trace)
    }
}

async fn acquire(client: &Client, contender: u32, wait_until: Option<Instant>) -> Result<LockGrant> {
    let wait_ms = wait_until.map_or(0, |until| millis(until.saturating_duration_since(Instant::now())));
    let request = AcquireRequest {
        resource: WORKFLOW.parse().expect("a valid resource"),
        owner: format!("contender-{contender}").parse().expect("a valid owner"),
        mode: LockMode::Exclusive,
        ttl_ms: TTL_MS,
        wait_ms: wait_ms.min(WAIT_MS_MAX),
        request_id: None,
        token: None,
    };
    client.acquire_lock(&request).await
}
