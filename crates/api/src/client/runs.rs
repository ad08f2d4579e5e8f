//! Calls about runs and their history.

use interlock_model::StepId;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use serde_json::Value;

use super::paths::path;
use super::transport::Call;
use super::{Client, Result};
use crate::history::TimelineItem;
use crate::runs::{RerunRequest, RunQuery, RunSummary, RunView, StartedRun};
use crate::{Page, PageQuery};

impl Client {
    /// Starts a run. Safe to repeat with the same key: that returns the same run as `replayed`.
    pub async fn start_run(&self, workflow: &str, input: &Value, key: Option<&str>) -> Result<StartedRun> {
        let call = self.post(&path(&[&"workflows", &workflow, &"runs"])).body(input);
        with_key(call, key)?.read().await
    }

    /// Starts the run's workflow again with the same input, through admission.
    pub async fn rerun(&self, run: &str, from_step: Option<StepId>, key: Option<&str>) -> Result<StartedRun> {
        let call = self.post(&path(&[&"workflow-runs", &run, &"rerun"])).body(&RerunRequest { from_step });
        with_key(call, key)?.read().await
    }

    pub async fn runs(&self, query: &RunQuery) -> Result<Page<RunSummary>> {
        self.get(&path(&[&"workflow-runs"])).query(query).read().await
    }

    pub async fn run(&self, run: &str) -> Result<RunView> {
        self.get(&path(&[&"workflow-runs", &run])).read().await
    }

    /// Requests the cancellation of a run. Safe to repeat.
    pub async fn cancel_run(&self, run: &str) -> Result<()> {
        self.post(&path(&[&"workflow-runs", &run, &"cancel"])).done().await
    }

    pub async fn delete_run(&self, run: &str) -> Result<()> {
        self.delete(&path(&[&"workflow-runs", &run])).done().await
    }

    /// The events of a run, oldest first.
    pub async fn timeline(&self, run: &str, query: &PageQuery) -> Result<Page<TimelineItem>> {
        self.get(&path(&[&"workflow-runs", &run, &"timeline"])).query(query).read().await
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
}

fn with_key(call: Call, key: Option<&str>) -> Result<Call> {
    match key {
        None => Ok(call),
        Some(key) => call.header("idempotency-key", key),
    }
}
