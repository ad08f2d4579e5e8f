//! Jobs that a look finds though nobody told of them, and though there was room for them: orphans.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use interlock_model::{TenantId, Topic};

/// Places that are remembered as empty.
const EMPTY_MAX: usize = 100_000;

/// Where the last look found nothing, with a worker there who had room.
#[derive(Debug, Default)]
pub(crate) struct Unsaid {
    empty: Mutex<HashSet<(TenantId, Topic)>>,
}

impl Unsaid {
    /// Somebody told of jobs there, so that those found there are no orphans.
    pub(crate) fn told(&self, tenant: &TenantId, topic: &Topic) {
        let mut empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        empty.remove(&(tenant.clone(), topic.clone()));
    }

    /// A look for jobs of these topics found jobs of those. Returns the topics of orphans among them.
    pub(crate) fn looked_at(&self, tenant: &TenantId, topics: &[Topic], found: &[Topic]) -> Vec<Topic> {
        let mut empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        let mut orphans = Vec::new();
        for topic in topics {
            let place = (tenant.clone(), topic.clone());
            if found.is_empty() {
                if empty.len() < EMPTY_MAX {
                    empty.insert(place);
                }
            } else if empty.remove(&place) && found.contains(topic) {
                orphans.push(topic.clone());
            }
        }
        orphans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_where_nothing_was_and_nobody_told_is_an_orphan() {
        let (unsaid, tenant) = (Unsaid::default(), "acme".parse().unwrap());
        let topics: Vec<Topic> = ["a", "b"].map(|topic| topic.parse().unwrap()).to_vec();
        let found = &topics[..1];
        assert!(unsaid.looked_at(&tenant, &topics, found).is_empty(), "it may have been there before");
        unsaid.looked_at(&tenant, &topics, &[]);
        assert_eq!(unsaid.looked_at(&tenant, &topics, found), found);
        unsaid.looked_at(&tenant, &topics, &[]);
        unsaid.told(&tenant, &topics[0]);
        assert!(unsaid.looked_at(&tenant, &topics, found).is_empty());
    }
}
