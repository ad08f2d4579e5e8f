//! Calls about limits.

use interlock_model::TenantId;

use super::paths::path;
use super::{Client, Result};
use crate::limits::{ConfigQuery, ConfigRequest, ConfigView, EffectiveConfig, EffectiveConfigQuery};

impl Client {
    /// Replaces the document of a scope, effective with the answer.
    pub async fn put_config(&self, request: &ConfigRequest) -> Result<()> {
        self.put(&path(&[&"config"])).body(request).done().await
    }

    pub async fn config(&self, query: &ConfigQuery) -> Result<ConfigView> {
        self.get(&path(&[&"config"])).query(query).read().await
    }

    /// What is in force for a tenant, by default the caller's own.
    pub async fn effective_config(&self, tenant: Option<TenantId>) -> Result<EffectiveConfig> {
        let query = EffectiveConfigQuery { org_id: tenant };
        self.get(&path(&[&"config", &"effective"])).query(&query).read().await
    }
}
