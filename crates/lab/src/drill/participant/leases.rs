//! The leases of a participant on the lock and the job, and the writes under them.

use std::collections::BTreeMap;
use std::time::Duration;

use interlock_api::client::Client;
use interlock_api::jobs::{
    ClaimRequest, ClaimedJob, CompleteRequest, FailRequest, HeartbeatRequest, ProgressRequest,
};
use interlock_api::locks::{AcquireRequest, LockGrant, ReleaseRequest, RenewRequest};
use interlock_model::lock::LockMode;
use interlock_model::time::millis;
use serde_json::json;
use tokio::time::Instant;

use super::call::{CallResult, with_retry};
use crate::drill::ledger::DrillLedger;
use crate::drill::plan::{DrillActor, DrillOperation};
use crate::drill::protocol::{DrillOutcome, Observation, ParticipantCommand, ParticipantSettings};

/// How long an acquisition may wait. The drill itself ends earlier.
const WAIT: Duration = Duration::from_mins(1);

pub(super) struct ParticipantLeases<'a> {
    client: &'a Client,
    settings: &'a ParticipantSettings,
    ledger: DrillLedger,
    /// With the time of the latest accepted acquisition or renewal request. The lease cannot have begun earlier.
    lock: Option<(LockGrant, Instant)>,
    job: Option<(ClaimedJob, Instant)>,
}

impl<'a> ParticipantLeases<'a> {
    pub(super) fn new(client: &'a Client, settings: &'a ParticipantSettings) -> Self {
        let ledger = DrillLedger::new(&settings.folder, settings.guarded);
        Self { client, settings, ledger, lock: None, job: None }
    }

    pub(super) async fn perform(&mut self, command: ParticipantCommand) -> Observation {
        let ParticipantCommand { actor, operation } = command;
        let wait = if actor == DrillActor::ContenderEarly { Duration::ZERO } else { WAIT };
        let CallResult { outcome, detail } = if operation == DrillOperation::LockAcquire {
            self.acquire_lock(actor, wait).await
        } else if operation == DrillOperation::JobClaim {
            self.claim_job(wait).await
        } else {
            self.write(operation).await
        };
        let lock = self.lock.as_ref().map(|(grant, requested_at)| (grant.fence, requested_at));
        let job = self.job.as_ref().map(|(job, requested_at)| (job.fence, requested_at));
        let lease = if operation.is_of_job() { job } else { lock };
        let fence = lease.map(|(fence, _)| fence);
        let lease_age_ms = lease.map_or(0, |(_, requested_at)| millis(requested_at.elapsed()));
        Observation { operation, fence, outcome, detail, lease_age_ms }
    }

    async fn acquire_lock(&mut self, actor: DrillActor, wait: Duration) -> CallResult {
        // One id per phase, so that a repeated call gets the same grant.
        let request_id = format!("{}-{actor:?}", self.settings.worker);
        let request = AcquireRequest {
            resource: self.settings.resource.clone(),
            owner: self.settings.worker.as_str().parse().expect("a worker id is a valid owner"),
            mode: LockMode::Exclusive,
            ttl_ms: self.settings.ttl_ms,
            wait_ms: millis(wait),
            request_id: Some(request_id.parse().expect("a valid request id")),
            token: None,
        };
        let requested_at = Instant::now();
        let granted = with_retry(|| self.client.acquire_lock(&request)).await;
        let result = CallResult::of_grant(&granted);
        self.lock = granted.ok().map(|grant| (grant, requested_at));
        result
    }

    async fn claim_job(&mut self, wait: Duration) -> CallResult {
        let request = ClaimRequest {
            topics: vec![self.settings.topic.clone()],
            max_jobs: 1,
            wait_ms: millis(wait),
            lease_ms: Some(self.settings.ttl_ms),
            capabilities: Vec::new(),
        };
        let requested_at = Instant::now();
        // Sent once: the job of a claim whose response was lost is not available to the next claim.
        let claimed = self.client.claim(&self.settings.worker, &request).await;
        let result = CallResult::of_grant(&claimed);
        let Ok(claimed) = claimed else { return result };
        self.job = claimed.jobs.into_iter().next().map(|job| (job, requested_at));
        if self.job.is_some() { result } else { CallResult::new(DrillOutcome::Held, "no job") }
    }

    async fn write(&mut self, operation: DrillOperation) -> CallResult {
        let (Some((lock, _)), Some((job, _))) = (self.lock.clone(), self.job.clone()) else {
            return CallResult::new(DrillOutcome::Unknown, "not held");
        };
        let (client, role, requested_at) = (self.client, self.settings.role, Instant::now());
        let (fence, resource, token) = (job.fence, lock.resource.clone(), lock.token.clone());
        match operation {
            DrillOperation::LockRenew => {
                let request = RenewRequest { resource, token, ttl_ms: self.settings.ttl_ms };
                let renewed = with_retry(|| client.renew_lock(&request)).await;
                if renewed.is_ok() {
                    self.lock = Some((lock, requested_at));
                }
                CallResult::of(&renewed)
            }
            DrillOperation::LockRelease => {
                let request = ReleaseRequest { resource, token };
                CallResult::of(&with_retry(|| client.release_lock(&request)).await)
            }
            DrillOperation::LedgerWrite => self.write_ledger(lock.fence),
            DrillOperation::JobHeartbeat => {
                let request = HeartbeatRequest { fence };
                let extended = with_retry(|| client.heartbeat(&job.job_id, &request)).await;
                if extended.is_ok() {
                    self.job = Some((job, requested_at));
                }
                CallResult::of(&extended)
            }
            DrillOperation::JobProgress => {
                let message = Some(format!("the {role} is working"));
                let request = ProgressRequest { fence, percent: 50, message };
                CallResult::of(&with_retry(|| client.progress(&job.job_id, &request)).await)
            }
            DrillOperation::JobFail => {
                let request = FailRequest {
                    fence,
                    error: format!("the {role} gives up"),
                    retryable: true,
                    retry_after_ms: None,
                    usage: BTreeMap::new(),
                };
                CallResult::of(&with_retry(|| client.fail(&job.job_id, &request)).await)
            }
            DrillOperation::JobComplete => {
                let request = CompleteRequest { fence, output: json!({"by": role}), usage: BTreeMap::new() };
                CallResult::of(&with_retry(|| client.complete(&job.job_id, &request)).await)
            }
            DrillOperation::LockAcquire
            | DrillOperation::JobClaim
            | DrillOperation::RunOutput
            | DrillOperation::LedgerOrder => unreachable!("{operation} is not a write"),
        }
    }

    fn write_ledger(&self, fence: u64) -> CallResult {
        match self.ledger.write(&self.settings.role.to_string(), fence) {
            Ok(true) => CallResult::new(DrillOutcome::Accepted, "written"),
            Ok(false) => CallResult::new(DrillOutcome::Stale, "refused by the file"),
            Err(error) => CallResult::new(DrillOutcome::Unknown, error.to_string()),
        }
    }
}
