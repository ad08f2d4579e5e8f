//! Calls about retry policies.

use interlock_model::contention::Scope;

use super::paths::path;
use super::{Client, Result};
use crate::Page;
use crate::retry_policies::{RetryPolicyDetail, RetryPolicyView, RollbackRequest, SetPolicyRequest};

impl Client {
    /// The policies in force.
    pub async fn retry_policies(&self) -> Result<Page<RetryPolicyView>> {
        self.get(&path(&[&"retry-policies"])).read().await
    }

    /// The policy of one scope, with its history.
    pub async fn retry_policy(&self, scope: Scope) -> Result<RetryPolicyDetail> {
        self.get(&path(&[&"retry-policies", &scope.name()])).read().await
    }

    pub async fn set_retry_policy(
        &self,
        scope: Scope,
        request: &SetPolicyRequest,
    ) -> Result<RetryPolicyView> {
        self.put(&path(&[&"retry-policies", &scope.name()])).body(request).read().await
    }

    /// Restores the previous version.
    pub async fn roll_back_retry_policy(
        &self,
        scope: Scope,
        request: &RollbackRequest,
    ) -> Result<RetryPolicyView> {
        self.post(&path(&[&"retry-policies", &scope.name(), &"rollback"])).body(request).read().await
    }
}
