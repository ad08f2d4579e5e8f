//! Calls about workers.

use super::paths::path;
use super::{Client, Result};
use crate::workers::{DrainRequest, WorkerView};
use crate::{Page, PageQuery};

impl Client {
    pub async fn workers(&self, query: &PageQuery) -> Result<Page<WorkerView>> {
        self.get(&path(&[&"workers"])).query(query).read().await
    }

    pub async fn worker(&self, worker: &str) -> Result<WorkerView> {
        self.get(&path(&[&"workers", &worker])).read().await
    }

    /// Stops or resumes giving jobs to a worker.
    pub async fn drain_worker(&self, worker: &str, request: DrainRequest) -> Result<WorkerView> {
        self.post(&path(&[&"workers", &worker, &"drain"])).body(&request).read().await
    }
}
