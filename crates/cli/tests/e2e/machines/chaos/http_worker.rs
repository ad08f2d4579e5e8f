//! An unreliable worker on HTTP.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::Method;
use serde_json::{Value, json};

use super::HTTP_TOPIC;
use super::ledger::{Dispatch, Ledger};
use crate::server::Answer;

pub(super) struct HttpWorker {
    name: String,
    tenant: &'static str,
    random: ChaCha8Rng,
}

/// The shortest lease that a worker may request.
const LEASE: Duration = Duration::from_secs(1);

impl HttpWorker {
    pub(super) fn new(number: usize, tenant: &'static str, seed: u64) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed.wrapping_add(number as u64));
        Self { name: format!("http-{number}"), tenant, random }
    }

    pub(super) async fn work(mut self, ledger: Arc<Ledger>) {
        while ledger.may_work() {
            let claim = json!({"topics": [HTTP_TOPIC], "max_jobs": 2, "wait_ms": 300, "lease_ms": 1_000});
            let path = format!("/workers/{}/claim", self.name);
            let answer = self.post(&ledger, &path, &claim).await;
            let Some(answer) = answer.filter(|answer| answer.status == 200) else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            for job in answer.body["jobs"].as_array().unwrap().clone() {
                let dispatch = Dispatch::of(&job);
                ledger.dispatched(&dispatch);
                self.handle(&ledger, dispatch).await;
            }
        }
    }

    async fn handle(&mut self, ledger: &Ledger, dispatch: Dispatch) {
        let verb = match self.random.random_range(0..20) {
            // It drops the job.
            0 => return,
            // It pauses for longer than its lease and then completes the job.
            1 => {
                tokio::time::sleep(LEASE * 2).await;
                "complete"
            }
            2 | 3 => "fail",
            _ => "complete",
        };
        let body = if verb == "fail" {
            json!({"fence": dispatch.fence, "error": "out of luck", "retryable": true})
        } else {
            json!({"fence": dispatch.fence, "output": {"attempt": dispatch.attempt}})
        };
        let path = format!("/jobs/{}/{verb}", dispatch.job);
        let was_stale = ledger.is_stale(&dispatch);
        let answer = self.post(ledger, &path, &body).await;
        if answer.is_some_and(|answer| answer.status == 200) && verb == "complete" {
            ledger.recorded(&dispatch, was_stale);
        }
    }

    async fn post(&self, ledger: &Ledger, path: &str, body: &Value) -> Option<Answer> {
        ledger.caller(self.tenant).try_send(Method::POST, path, None, body).await
    }
}
