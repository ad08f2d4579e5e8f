//! Calls about workflows.

use super::paths::path;
use super::{Client, Result};
use crate::workflows::{CreatedWorkflow, WorkflowView};
use crate::{Page, PageQuery};

impl Client {
    /// Saves a document as the next version of its workflow.
    pub async fn create_workflow(&self, document: &serde_json::Value) -> Result<CreatedWorkflow> {
        self.post(&path(&[&"workflows"])).body(document).read().await
    }

    pub async fn workflows(&self, query: &PageQuery) -> Result<Page<WorkflowView>> {
        self.get(&path(&[&"workflows"])).query(query).read().await
    }

    pub async fn workflow(&self, id: &str) -> Result<WorkflowView> {
        self.get(&path(&[&"workflows", &id])).read().await
    }

    pub async fn delete_workflow(&self, id: &str) -> Result<()> {
        self.delete(&path(&[&"workflows", &id])).done().await
    }
}
