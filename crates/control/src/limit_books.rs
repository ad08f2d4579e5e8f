//! The named limits of tenants, compiled and kept in memory. The store says whether what is kept is still current.

use std::sync::{Arc, Mutex, PoisonError};

use interlock_backend::limits::LimitBook;
use interlock_backend::verbs::ListLimits;
use interlock_backend::{StoreError, StoreReader};
use interlock_model::TenantId;
use interlock_model::limit::rule::LimitRule;

use crate::bounded::Bounded;
use crate::process::Process;
use crate::system_limits::SystemLimits;

/// The limits that apply to the starts of a tenant.
#[derive(Debug, Default)]
pub(crate) struct CompiledBook {
    /// The store starts nothing by another one.
    pub(crate) revision: u64,
    /// The version of the system's limits among them.
    system: u64,
    pub(crate) rules: Vec<LimitRule>,
}

pub struct LimitBooks {
    store: StoreReader,
    system: Arc<SystemLimits>,
    known: Mutex<Bounded<TenantId, Arc<CompiledBook>>>,
}

impl LimitBooks {
    pub(crate) fn new(process: &Process, system: Arc<SystemLimits>) -> Self {
        let known = Mutex::new(Bounded::new(process.settings.definitions_max));
        Self { store: process.reader(), system, known }
    }

    /// What was last seen. A tenant that was not looked at yet has no limits, as most have none: the store knows better.
    fn known(&self, tenant: &TenantId) -> Arc<CompiledBook> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned().unwrap_or_default()
    }

    /// What was last seen, with the limits of the system as this process knows them.
    pub(crate) async fn current(&self, tenant: &TenantId) -> Result<Arc<CompiledBook>, StoreError> {
        let known = self.known(tenant);
        if known.system >= self.system.version() { Ok(known) } else { self.reload(tenant).await }
    }

    pub(crate) async fn reload(&self, tenant: &TenantId) -> Result<Arc<CompiledBook>, StoreError> {
        let mut book = self.store.call(ListLimits { tenant: tenant.clone() }).await?;
        if book.system < self.system.version() {
            self.system.apply(tenant).await?;
            book = self.store.call(ListLimits { tenant: tenant.clone() }).await?;
        }
        let book = Arc::new(compile(tenant, book)?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(tenant.clone(), book.clone());
        Ok(book)
    }
}

pub(crate) fn compile(tenant: &TenantId, book: LimitBook) -> Result<CompiledBook, StoreError> {
    let rules = book.limits.into_iter().map(|limit| {
        // It compiled when it was saved; if it does not now, the rules have changed under it.
        LimitRule::compile(limit.name.clone(), &limit.document).map_err(|error| StoreError::Damaged {
            table: "limits",
            key: format!("{tenant}/{}", limit.name),
            reason: error.to_string(),
        })
    });
    Ok(CompiledBook { revision: book.revision, system: book.system, rules: rules.collect::<Result<_, _>>()? })
}
