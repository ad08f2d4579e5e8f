//! Where the next tick continues in a long table: one tick reads a bounded part of each.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use interlock_model::TenantId;

/// Places that are kept. A walk whose place is dropped starts from the beginning.
const PLACES_MAX: usize = 10_000;

/// How far the walk of each tenant has come.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_once_and_only_so_many_are_kept() {
        let walks = Walks::default();
        let tenant = |number: usize| format!("t{number}").parse().unwrap();
        for number in 0..=PLACES_MAX {
            walks.keep(&tenant(number), number);
        }
        assert_eq!((walks.take(&tenant(7)), walks.take(&tenant(7))), (Some(7), None));
        assert_eq!(walks.take(&tenant(PLACES_MAX)), None);
    }
}
