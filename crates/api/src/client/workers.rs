//! Calls about workers, as people see them.

use super::paths::path;
use super::{Client, Result};
use crate::workers::WorkerView;
use crate::{Page, PageQuery};

impl Client {
    pub async fn workers(&self, query: &PageQuery) -> Result<Page<WorkerView>> {
        self.get(&path(&[&"workers"])).query(query).read().await
    }

    pub async fn worker(&self, worker: &str) -> Result<WorkerView> {
        self.get(&path(&[&"workers", &worker])).read().await
    }
}
