//! Orphans: jobs that a scan finds without a wake-up, though a worker had room for them.

use std::collections::HashSet;

use interlock_model::{TenantId, Topic};

/// Empty queues that are remembered at most.
const EMPTY_MAX: usize = 100_000;

/// The topics that the last scan found empty, with a worker that had room.
#[derive(Debug, Default)]
pub(crate) struct OrphanDetector {
    empty: HashSet<(TenantId, Topic)>,
}

impl OrphanDetector {
    /// A wake-up announced jobs of this topic, so they are no orphans.
    pub(crate) fn announced(&mut self, tenant: &TenantId, topic: &Topic) {
        self.empty.remove(&(tenant.clone(), topic.clone()));
    }

    /// A scan of `topics` found jobs of the topics `found`. Returns the topics of orphans among them.
    pub(crate) fn scanned(&mut self, tenant: &TenantId, topics: &[Topic], found: &[Topic]) -> Vec<Topic> {
        let mut orphans = Vec::new();
        for topic in topics {
            let queue = (tenant.clone(), topic.clone());
            if found.is_empty() {
                if self.empty.len() < EMPTY_MAX {
                    self.empty.insert(queue);
                }
            } else if self.empty.remove(&queue) && found.contains(topic) {
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
    fn an_unannounced_job_in_a_queue_that_was_empty_is_an_orphan() {
        let (mut detector, tenant) = (OrphanDetector::default(), "acme".parse().unwrap());
        let topics: Vec<Topic> = ["a", "b"].map(|topic| topic.parse().unwrap()).to_vec();
        let found = &topics[..1];
        assert!(detector.scanned(&tenant, &topics, found).is_empty(), "it may have been there before");
        detector.scanned(&tenant, &topics, &[]);
        assert_eq!(detector.scanned(&tenant, &topics, found), found);
        detector.scanned(&tenant, &topics, &[]);
        detector.announced(&tenant, &topics[0]);
        assert!(detector.scanned(&tenant, &topics, found).is_empty());
    }
}
