//! What tenants may use, as an operator writes it down.

use interlock_backend::tenants::LimitScope;
use interlock_backend::{StoreError, Wake};
use interlock_model::limit::Limits;

use crate::service::Control;

impl Control {
    /// Replaces what is written for the scope. A tenant's own limit is in force everywhere with the answer; the
    /// system's, which other processes may keep, within a second.
    pub async fn set_limits(&self, scope: &LimitScope, limits: Limits) -> Result<u64, StoreError> {
        let revision = self.store.set_limits(scope, limits).await?;
        if *scope == LimitScope::System {
            self.wake(Wake::LimitsChanged);
        }
        Ok(revision)
    }
}
