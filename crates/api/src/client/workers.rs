//! Calls about workers, as people see them.

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

    /// From now on the worker is given no new jobs, or is again.
    pub async fn drain_worker(&self, worker: &str, request: DrainRequest) -> Result<WorkerView> {
        self.post(&path(&[&"workers", &worker, &"drain"])).body(&request).read().await
    }
}
