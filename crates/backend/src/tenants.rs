//! Tenants and their limits.

use async_trait::async_trait;
use interlock_model::TenantId;
use interlock_model::limit::{EffectiveLimits, Limits};

use crate::{Page, PageRequest, StoreError};

/// Where limits are written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitScope {
    /// The default for every tenant that says nothing itself.
    System,
    Tenant(TenantId),
}

/// Limits as written down, with the number of their last change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WrittenLimits {
    pub limits: Limits,
    pub revision: u64,
}

#[async_trait]
pub trait TenantStore: Send + Sync {
    /// Replaces what is written for the scope. In force with the answer; returns the new revision.
    async fn set_limits(&self, scope: &LimitScope, limits: Limits) -> Result<u64, StoreError>;
    async fn limits(&self, scope: &LimitScope) -> Result<WrittenLimits, StoreError>;
    async fn effective_limits(&self, tenant: &TenantId) -> Result<EffectiveLimits, StoreError>;
    /// Every tenant that was ever used, by name.
    async fn tenants(&self, page: &PageRequest) -> Result<Page<TenantId>, StoreError>;
}
