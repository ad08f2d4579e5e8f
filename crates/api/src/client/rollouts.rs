//! Calls about rollouts.

use super::paths::path;
use super::{Client, Result};
use crate::rollouts::{EndRolloutRequest, RolloutView, StartRolloutRequest};
use crate::{Page, PageQuery};

impl Client {
    pub async fn start_rollout(&self, request: &StartRolloutRequest) -> Result<RolloutView> {
        self.post(&path(&[&"rollouts"])).body(request).read().await
    }

    /// Newest first.
    pub async fn rollouts(&self, query: &PageQuery) -> Result<Page<RolloutView>> {
        self.get(&path(&[&"rollouts"])).query(query).read().await
    }

    pub async fn rollout(&self, id: &str) -> Result<RolloutView> {
        self.get(&path(&[&"rollouts", &id])).read().await
    }

    /// Ends the rollout and puts its candidate in force.
    pub async fn promote_rollout(&self, id: &str, request: &EndRolloutRequest) -> Result<RolloutView> {
        self.post(&path(&[&"rollouts", &id, &"promote"])).body(request).read().await
    }

    /// Ends the rollout and keeps the control in force.
    pub async fn abort_rollout(&self, id: &str, request: &EndRolloutRequest) -> Result<RolloutView> {
        self.post(&path(&[&"rollouts", &id, &"abort"])).body(request).read().await
    }
}
