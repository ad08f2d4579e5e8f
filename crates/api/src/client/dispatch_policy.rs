//! Calls about the dispatch policy.

use super::paths::path;
use super::{Client, Result};
use crate::dispatch_policy::{CheckRequest, CheckView, DispatchPolicyView};

impl Client {
    /// What is in force for the tenant.
    pub async fn dispatch_policy(&self) -> Result<DispatchPolicyView> {
        self.get(&path(&[&"dispatch-policy"])).read().await
    }

    /// What the policy would decide, and why. Changes nothing.
    pub async fn check_dispatch(&self, request: &CheckRequest) -> Result<CheckView> {
        self.post(&path(&[&"dispatch-policy", &"check"])).body(request).read().await
    }
}
