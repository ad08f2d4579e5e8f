//! Job queues: one per topic and set of required capabilities, ordered by dispatch time shifted by priority.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::job::NewJob;
use crate::meta::Priority;
use crate::{Tag, Timestamp};

/// Maximum number of kinds of one topic that a claim scans. Jobs of further kinds wait until earlier kinds are done.
pub const KINDS_MAX: usize = 256;

/// How far one priority level shifts a job in its queue. The order never changes while a job waits, so nothing starves:
/// only jobs dispatched less than two steps later can overtake a batch job.
pub const PRIORITY_STEP: Duration = Duration::from_mins(1);

/// Not valid in tags and topics.
const SEPARATOR: char = '+';

/// The required capabilities of a job as one string. Jobs of one kind and topic share a queue, so that a claim never
/// scans jobs that its worker cannot do.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind(String);

impl Kind {
    pub fn of(requires: &BTreeSet<Tag>) -> Self {
        let tags: Vec<&str> = requires.iter().map(Tag::as_str).collect();
        Self(tags.join("+"))
    }

    /// A kind as stored by [`Self::as_str`].
    pub fn written(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it requires no capabilities.
    pub fn is_usual(&self) -> bool {
        self.0.is_empty()
    }

    /// The required capabilities that are not among these.
    pub fn missing(&self, capabilities: &[String]) -> Vec<&str> {
        let required = self.0.split(SEPARATOR).filter(|tag| !tag.is_empty());
        required.filter(|tag| !capabilities.iter().any(|capability| capability == tag)).collect()
    }

    pub fn fits(&self, capabilities: &[String]) -> bool {
        self.missing(capabilities).is_empty()
    }
}

/// How many milliseconds the priority shifts a job in its queue.
pub fn moved(priority: Priority) -> i64 {
    let step = i64::try_from(PRIORITY_STEP.as_millis()).unwrap_or(i64::MAX);
    match priority {
        Priority::Critical => -step,
        Priority::Interactive => 0,
        Priority::Batch => step,
    }
}

/// The sort key of a job in its queue.
pub fn place(priority: Priority, dispatched_at: Timestamp) -> Timestamp {
    Timestamp::from_millis(dispatched_at.as_millis().saturating_add_signed(moved(priority)))
}

impl NewJob {
    pub fn kind(&self) -> Kind {
        Kind::of(&self.meta.requires)
    }

    /// The sort key of this job in its queue.
    pub fn place(&self, dispatched_at: Timestamp) -> Timestamp {
        place(self.meta.priority, dispatched_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(tags: &[&str]) -> Kind {
        Kind::of(&tags.iter().map(|tag| tag.parse().unwrap()).collect())
    }

    fn capabilities(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_kind_does_not_depend_on_the_order_of_its_tags() {
        assert_eq!(kind(&["gpu", "arm:64"]), kind(&["arm:64", "gpu"]));
        assert_eq!(kind(&["gpu", "arm:64"]).as_str(), "arm:64+gpu");
        assert!(kind(&[]).is_usual());
    }

    #[test]
    fn a_worker_fits_only_with_all_required_capabilities() {
        let both = kind(&["gpu", "linux"]);
        assert!(both.fits(&capabilities(&["linux", "gpu", "more"])));
        assert_eq!(both.missing(&capabilities(&["gpu-2", "linux"])), ["gpu"]);
        assert!(kind(&[]).fits(&[]));
        assert!(!kind(&["gpu"]).fits(&[]));
    }

    #[test]
    fn a_batch_job_is_overtaken_for_at_most_two_steps() {
        let at = Timestamp::from_millis(1_000_000);
        let batch = place(Priority::Batch, at);
        assert!(place(Priority::Critical, at + PRIORITY_STEP * 2 - Duration::from_millis(1)) < batch);
        assert!(place(Priority::Critical, at + PRIORITY_STEP * 2 + Duration::from_millis(1)) > batch);
        assert!(place(Priority::Critical, at) < place(Priority::Interactive, at));
        assert!(place(Priority::Interactive, at) < batch);
    }
}
