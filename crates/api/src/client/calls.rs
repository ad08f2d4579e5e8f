//! The endpoints that need more than [`super::endpoints`] has: a header, a longer wait, or no base path.

use std::time::Duration;

use interlock_model::approval::Verdict;
use interlock_model::document::Format;
use interlock_model::limit::document::LimitDocument;
use interlock_model::time::millis;
use interlock_model::{Resource, StepId, WorkerId};
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use serde_json::Value;

use super::paths::path;
use super::transport::Call;
use super::{Client, Result, unreachable};
use crate::approvals::{ResolvedApproval, VerdictRequest};
use crate::budgets::{BudgetDocument, BudgetView};
use crate::doctor::{DoctorQuery, DoctorView, RepairRequest, RepairView};
use crate::jobs::{ClaimAnswer, ClaimRequest};
use crate::locks::{AcquireRequest, LockDetail, LockGrant, LockQuery};
use crate::named_limits::{SavedLimit, SystemLimitView};
use crate::runs::{RerunRequest, RunView, StartOptions, StartedRun};
use crate::workflows::CreatedWorkflow;

/// How long the server checks invariants; it reports what it could not check by then.
const CHECK_MAX: Duration = Duration::from_mins(1);

impl Client {
    /// Saves a document as its author wrote it.
    pub async fn save_workflow_text(&self, format: Format, text: Vec<u8>) -> Result<CreatedWorkflow> {
        self.post(&path(&[&"workflows"])).text(format.media_type(), text).read().await
    }

    /// Starts a run. Safe to repeat with the same key: that returns the same run as `replayed`.
    pub async fn start_run(&self, workflow: &str, input: &Value, key: Option<&str>) -> Result<StartedRun> {
        let call = self.post(&path(&[&"workflows", &workflow, &"runs"])).body(input);
        with_key(call, key)?.read().await
    }

    /// Starts a run with labels and a priority.
    pub async fn start_run_with(
        &self,
        workflow: &str,
        input: &Value,
        options: &StartOptions,
    ) -> Result<StartedRun> {
        let StartOptions { key, priority, labels } = options;
        let mut call = self.post(&path(&[&"workflows", &workflow, &"runs"])).body(input);
        if let Some(priority) = priority {
            call = call.header("x-interlock-priority", &priority.to_string())?;
        }
        for (name, value) in labels {
            call = call.header("x-interlock-label", &format!("{name}={value}"))?;
        }
        with_key(call, key.as_deref())?.read().await
    }

    /// Saves a limit. `replaces`: only if that is its revision; 0: only if there is none of this name.
    pub async fn save_limit(
        &self,
        name: &str,
        document: &LimitDocument,
        replaces: Option<u64>,
    ) -> Result<SavedLimit> {
        replacing(self.put(&path(&[&"limits", &name])).body(document), replaces)?.read().await
    }

    /// The same for a limit of the system.
    pub async fn save_system_limit(
        &self,
        name: &str,
        document: &LimitDocument,
        replaces: Option<u64>,
    ) -> Result<SystemLimitView> {
        let call = self.put(&path(&[&"system", &"limits", &name])).body(document);
        replacing(call, replaces)?.read().await
    }

    /// Starts the run's workflow again with the same input, through admission.
    pub async fn rerun(&self, run: &str, from_step: Option<StepId>, key: Option<&str>) -> Result<StartedRun> {
        let call = self.post(&path(&[&"workflow-runs", &run, &"rerun"])).body(&RerunRequest { from_step });
        with_key(call, key)?.read().await
    }

    /// The run once it has ended, or as it is after this wait, which is at most a minute.
    pub async fn run_after(&self, run: &str, wait: Duration) -> Result<RunView> {
        let query = [("wait_ms", millis(wait))];
        self.get(&path(&[&"workflow-runs", &run])).query(&query).waiting(wait).read().await
    }

    /// The live stream of the run's events after number `after`. [`crate::events::RunEvents`] reads it.
    pub(crate) fn events_call(&self, run: &str, after: u64) -> Call {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if after > 0 {
            headers.insert("last-event-id", HeaderValue::from(after));
        }
        self.get(&path(&[&"workflow-runs", &run, &"events"])).headers(headers)
    }

    pub async fn resolve_approval(
        &self,
        job: &str,
        verdict: Verdict,
        reason: Option<String>,
    ) -> Result<ResolvedApproval> {
        let verb = match verdict {
            Verdict::Approved => "approve",
            Verdict::Rejected => "reject",
        };
        self.post(&path(&[&"approvals", &job, &verb])).body(&VerdictRequest { reason }).read().await
    }

    /// Claims jobs, and waits for them as long as the request says.
    pub async fn claim(&self, worker: &WorkerId, request: &ClaimRequest) -> Result<ClaimAnswer> {
        let call = self.post(&path(&[&"workers", worker, &"claim"])).body(request);
        call.waiting(Duration::from_millis(request.wait_ms)).read().await
    }

    /// Acquires a lock, and waits for it as long as the request says. Safe to repeat with the same `request_id`: that gets
    /// the same grant, or keeps its place in the queue.
    pub async fn acquire_lock(&self, request: &AcquireRequest) -> Result<LockGrant> {
        let call = self.post(&path(&[&"locks", &"acquire"])).body(request);
        call.waiting(Duration::from_millis(request.wait_ms)).read().await
    }

    /// A held lock with the first requests in its queue.
    pub async fn lock(&self, resource: Resource) -> Result<LockDetail> {
        let query = LockQuery { resource: Some(resource), ..LockQuery::default() };
        self.get(&path(&[&"locks"])).query(&query).read().await
    }

    /// Creates a budget, or replaces its document if that has this revision.
    pub async fn put_budget(
        &self,
        name: &str,
        document: &BudgetDocument,
        revision: Option<u64>,
    ) -> Result<BudgetView> {
        let call = self.put(&path(&[&"budgets", &name])).body(document);
        match revision {
            None => call.read().await,
            Some(revision) => call.header("if-match", &revision.to_string())?.read().await,
        }
    }

    pub async fn doctor(&self, query: &DoctorQuery) -> Result<DoctorView> {
        self.get(&path(&[&"doctor"])).query(query).waiting(CHECK_MAX).read().await
    }

    /// Safe to repeat: a repaired finding does not exist any more.
    pub async fn repair(&self, query: &DoctorQuery, request: &RepairRequest) -> Result<RepairView> {
        let call = self.post(&path(&[&"doctor", &"repair"])).query(query).body(request);
        // It checks before and after.
        call.waiting(CHECK_MAX * 3).read().await
    }

    /// The metrics as Prometheus text. Needs no key.
    pub async fn metrics(&self) -> Result<String> {
        let response = self.get("/metrics").stream().await?;
        response.text().await.map_err(|error| unreachable(self.gateway(), &error))
    }

    /// Fails unless the process answers. Needs no key.
    pub async fn is_alive(&self) -> Result<()> {
        self.get("/healthz").done().await
    }
}

/// Changes a limit only if that is its revision.
fn replacing(call: Call, revision: Option<u64>) -> Result<Call> {
    match revision {
        None => Ok(call),
        Some(0) => call.header("if-none-match", "*"),
        Some(revision) => call.header("if-match", &format!("\"{revision}\"")),
    }
}

fn with_key(call: Call, key: Option<&str>) -> Result<Call> {
    match key {
        None => Ok(call),
        Some(key) => call.header("idempotency-key", key),
    }
}
