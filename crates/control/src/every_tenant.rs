//! All tenants, a page at a time.

use interlock_backend::verbs::ListTenants;
use interlock_backend::{PageRequest, StoreError};
use interlock_model::TenantId;

use crate::process::Process;

const TENANTS_A_PAGE: usize = 500;

/// Where a walk through the tenants is.
pub(crate) struct EveryTenant {
    next: Option<PageRequest>,
}

impl EveryTenant {
    pub(crate) fn new() -> Self {
        Self { next: Some(PageRequest { limit: TENANTS_A_PAGE, after: None }) }
    }

    /// The next of them; none after the last.
    pub(crate) async fn next_page(&mut self, process: &Process) -> Result<Option<Vec<TenantId>>, StoreError> {
        let Some(page) = self.next.take() else { return Ok(None) };
        let found = process.store.call(ListTenants { page }).await?;
        self.next = found.next.map(|after| PageRequest { limit: TENANTS_A_PAGE, after: Some(after) });
        Ok(Some(found.items))
    }
}
