//! Calls about dead letters.

use super::paths::path;
use super::{Client, Result};
use crate::dead_letters::{DeadLetterView, DeadLettersAnswer, DeadLettersRequest, RetriedDeadLetter};
use crate::{Page, PageQuery};

impl Client {
    /// Those of the newest runs first.
    pub async fn dead_letters(&self, query: &PageQuery) -> Result<Page<DeadLetterView>> {
        self.get(&path(&[&"dlq"])).query(query).read().await
    }

    pub async fn dead_letter(&self, job: &str) -> Result<DeadLetterView> {
        self.get(&path(&[&"dlq", &job])).read().await
    }

    /// Deletes a dead letter. The job and its run stay as they are.
    pub async fn delete_dead_letter(&self, job: &str) -> Result<()> {
        self.delete(&path(&[&"dlq", &job])).done().await
    }

    /// Retries the step of a dead letter in its run.
    pub async fn retry_dead_letter(&self, job: &str) -> Result<RetriedDeadLetter> {
        self.post(&path(&[&"dlq", &job, &"retry"])).read().await
    }

    pub async fn retry_dead_letters(&self, request: &DeadLettersRequest) -> Result<DeadLettersAnswer> {
        self.post(&path(&[&"dlq", &"retry"])).body(request).read().await
    }

    pub async fn delete_dead_letters(&self, request: &DeadLettersRequest) -> Result<DeadLettersAnswer> {
        self.post(&path(&[&"dlq", &"delete"])).body(request).read().await
    }
}
