//! Where walks through long tables go on at the next tick: one tick looks at a bounded part of each.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use interlock_model::TenantId;

/// Places that are remembered. A walk whose place is forgotten begins anew.
const PLACES_MAX: usize = 10_000;

/// For each tenant, how far a walk has come.
#[derive(Debug)]
pub(super) struct Walks<P> {
    places: Mutex<BTreeMap<TenantId, P>>,
}

impl<P> Default for Walks<P> {
    fn default() -> Self {
        Self { places: Mutex::default() }
    }
}

impl<P> Walks<P> {
    pub(super) fn take(&self, tenant: &TenantId) -> Option<P> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).remove(tenant)
    }

    pub(super) fn keep(&self, tenant: &TenantId, place: P) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() < PLACES_MAX {
            places.insert(tenant.clone(), place);
        }
    }
}
