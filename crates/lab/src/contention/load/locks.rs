//! Many who want one lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use interlock_api::client::{Client, Result};
use interlock_api::locks::{AcquireRequest, LockGrant, ReleaseRequest, WAIT_MS_MAX};
use interlock_model::lock::LockMode;
use interlock_model::retry::{RetryPolicy, Seed};
use interlock_model::time::millis;

use super::burst::{burst, warm_up};
use super::{Counters, Stage, WORKFLOW};
use crate::contention::trace::{Recorder, Trace};

/// Should a contender be cut off while it holds.
const TTL_MS: u64 = 5_000;

impl Stage {
    /// Everybody stands in line, or asks again and again as the policy says.
    pub(super) async fn locks(
        &self,
        contenders: u32,
        hold: Duration,
        poll: Option<RetryPolicy>,
    ) -> Result<Trace> {
        let client = self.client(&self.tenant)?;
        warm_up(&client, contenders).await;
        let before = Counters::before(&client).await?;
        let (recorder, until) = (Arc::new(Recorder::default()), self.until());
        let journey = |contender| {
            let contender = Contender {
                client: client.clone(),
                recorder: recorder.clone(),
                number: contender,
                seed: self.seed.part(u64::from(contender)),
                hold,
                until,
            };
            contender.go(poll)
        };
        let mut trace = burst(&recorder, &self.order(contenders), until, journey).await;
        before.add_to(&mut trace, &Counters::after(&client).await?);
        trace.notes.push("commands of releases included".to_owned());
        Ok(trace)
    }
}

struct Contender {
    client: Client,
    recorder: Arc<Recorder>,
    number: u32,
    seed: Seed,
    hold: Duration,
    until: Instant,
}

impl Contender {
    async fn go(self, poll: Option<RetryPolicy>) {
        let mut delays = poll.iter().flat_map(|policy| policy.schedule(self.seed));
        for number in 1.. {
            let left = millis(self.until.saturating_duration_since(Instant::now()));
            let request = AcquireRequest {
                resource: WORKFLOW.parse().expect("letters make a resource"),
                owner: format!("contender-{}", self.number).parse().expect("letters make an owner"),
                mode: LockMode::Exclusive,
                ttl_ms: TTL_MS,
                wait_ms: if poll.is_some() { 0 } else { left.min(WAIT_MS_MAX) },
                request_id: None,
                token: None,
            };
            let asked = self.client.acquire_lock(&request);
            match self.recorder.attempt(self.number, number, asked).await {
                (_, Ok(grant)) => return self.hold(grant).await,
                (answer, Err(_)) if answer.is_passing() => match delays.next() {
                    Some(delay) => tokio::time::sleep(delay).await,
                    None => return,
                },
                (_, Err(_)) => return,
            }
        }
    }

    async fn hold(&self, grant: LockGrant) {
        self.recorder.served();
        tokio::time::sleep(self.hold).await;
        let request = ReleaseRequest { resource: grant.resource, token: grant.token };
        // What is not given back ends by itself.
        let _released = self.client.release_lock(&request).await;
    }
}
