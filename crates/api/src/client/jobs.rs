//! Calls about jobs, of workers and of people.

use std::time::Duration;

use interlock_model::{JobId, WorkerId};

use super::paths::path;
use super::{Client, Result};
use crate::Page;
use crate::jobs::{
    ClaimAnswer, ClaimRequest, CompleteRequest, FailRequest, HeartbeatAnswer, HeartbeatRequest, JobQuery,
    JobView, ProgressRequest,
};

impl Client {
    /// Claims jobs, and waits for them as long as the request says.
    pub async fn claim(&self, worker: &WorkerId, request: &ClaimRequest) -> Result<ClaimAnswer> {
        let call = self.post(&path(&[&"workers", worker, &"claim"])).body(request);
        call.waiting(Duration::from_millis(request.wait_ms)).read().await
    }

    /// Renews the job's lease. `stale_fence` means that the job is lost.
    pub async fn heartbeat(&self, job: &JobId, fence: u64) -> Result<HeartbeatAnswer> {
        self.post(&path(&[&"jobs", job, &"heartbeat"])).body(&HeartbeatRequest { fence }).read().await
    }

    /// Safe to repeat with the same fence.
    pub async fn complete(&self, job: &JobId, request: &CompleteRequest) -> Result<()> {
        self.post(&path(&[&"jobs", job, &"complete"])).body(request).done().await
    }

    /// Safe to repeat with the same fence.
    pub async fn fail(&self, job: &JobId, request: &FailRequest) -> Result<()> {
        self.post(&path(&[&"jobs", job, &"fail"])).body(request).done().await
    }

    pub async fn progress(&self, job: &JobId, request: &ProgressRequest) -> Result<()> {
        self.post(&path(&[&"jobs", job, &"progress"])).body(request).done().await
    }

    pub async fn jobs(&self, query: &JobQuery) -> Result<Page<JobView>> {
        self.get(&path(&[&"jobs"])).query(query).read().await
    }

    pub async fn job(&self, job: &str) -> Result<JobView> {
        self.get(&path(&[&"jobs", &job])).read().await
    }

    pub async fn cancel_job(&self, job: &str) -> Result<()> {
        self.post(&path(&[&"jobs", &job, &"cancel"])).done().await
    }
}
