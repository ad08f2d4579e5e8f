//! All tenants, read a page at a time.

use std::collections::VecDeque;

use interlock_backend::verbs::ListTenants;
use interlock_backend::{PageRequest, StoreError};
use interlock_model::TenantId;

use crate::process::Process;

/// Where a scan of the tenants is.
pub(crate) struct EveryTenant {
    read: VecDeque<TenantId>,
    next: Option<PageRequest>,
}

impl Default for EveryTenant {
    fn default() -> Self {
        Self::after(None)
    }
}

impl EveryTenant {
    /// Those after this one.
    pub(crate) fn after(tenant: Option<&TenantId>) -> Self {
        let after = tenant.map(ToString::to_string);
        Self { read: VecDeque::new(), next: Some(PageRequest { limit: 500, after }) }
    }

    /// The next tenant; none after the last.
    pub(crate) async fn next(&mut self, process: &Process) -> Result<Option<TenantId>, StoreError> {
        while self.read.is_empty() {
            let Some(page) = self.next.take() else { return Ok(None) };
            let limit = page.limit;
            let found = process.call(ListTenants { page }).await?;
            self.next = found.next.map(|after| PageRequest { limit, after: Some(after) });
            self.read = found.items.into();
        }
        Ok(self.read.pop_front())
    }
}
