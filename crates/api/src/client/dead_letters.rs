//! Calls about dead letters.

use super::paths::path;
use super::{Client, Result};
use crate::dead_letters::{DeadLetterView, LettersAnswer, LettersRequest, RetriedLetter};
use crate::{Page, PageQuery};

impl Client {
    /// Those of the newest runs first.
    pub async fn dead_letters(&self, query: &PageQuery) -> Result<Page<DeadLetterView>> {
        self.get(&path(&[&"dlq"])).query(query).read().await
    }

    pub async fn dead_letter(&self, job: &str) -> Result<DeadLetterView> {
        self.get(&path(&[&"dlq", &job])).read().await
    }

    /// Forgets the letter. The job and its run stay as they are.
    pub async fn delete_dead_letter(&self, job: &str) -> Result<()> {
        self.delete(&path(&[&"dlq", &job])).done().await
    }

    /// Another attempt of the letter's step, in the same run.
    pub async fn retry_dead_letter(&self, job: &str) -> Result<RetriedLetter> {
        self.post(&path(&[&"dlq", &job, &"retry"])).read().await
    }

    /// The same for many letters.
    pub async fn retry_dead_letters(&self, which: &LettersRequest) -> Result<LettersAnswer> {
        self.post(&path(&[&"dlq", &"retry"])).body(which).read().await
    }

    pub async fn delete_dead_letters(&self, which: &LettersRequest) -> Result<LettersAnswer> {
        self.post(&path(&[&"dlq", &"delete"])).body(which).read().await
    }
}
