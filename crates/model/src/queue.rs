//! Where a job waits: in the queue of its topic and of what it requires, at a place that its priority moves.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::job::NewJob;
use crate::meta::Priority;
use crate::{Tag, Timestamp};

/// Kinds of one topic that a claim looks at. Jobs of more kinds than that wait until some kinds are done.
pub const KINDS_MAX: usize = 256;

/// How much earlier or later than it was dispatched a job that is not of the usual priority stands in its queue. The
/// order never changes while a job waits, so everything ages and nothing starves: a batch job is overtaken only by what
/// is dispatched within two of these after it.
pub const PRIORITY_STEP: Duration = Duration::from_mins(1);

/// No tag and no topic has it.
const SEPARATOR: char = '+';

/// What a job's worker must be capable of, all of it, as one word. Jobs of one kind and one topic share a queue, so that
/// nobody looks past jobs that are not for him.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind(String);

impl Kind {
    #[must_use]
    pub fn of(requires: &BTreeSet<Tag>) -> Self {
        let tags: Vec<&str> = requires.iter().map(Tag::as_str).collect();
        Self(tags.join("+"))
    }

    /// A kind as a store wrote it down.
    #[must_use]
    pub fn written(word: &str) -> Self {
        Self(word.to_owned())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether anybody can do it.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        self.0.is_empty()
    }

    /// What a worker with these capabilities lacks.
    #[must_use]
    pub fn missing(&self, capabilities: &[String]) -> Vec<&str> {
        let required = self.0.split(SEPARATOR).filter(|tag| !tag.is_empty());
        required.filter(|tag| !capabilities.iter().any(|capability| capability == tag)).collect()
    }

    #[must_use]
    pub fn fits(&self, capabilities: &[String]) -> bool {
        self.missing(capabilities).is_empty()
    }
}

/// By how many milliseconds the priority moves a job in its queue.
#[must_use]
pub fn moved(priority: Priority) -> i64 {
    let step = i64::try_from(PRIORITY_STEP.as_millis()).unwrap_or(i64::MAX);
    match priority {
        Priority::Critical => -step,
        Priority::Interactive => 0,
        Priority::Batch => step,
    }
}

/// The place in its queue of a job of this priority.
#[must_use]
pub fn place(priority: Priority, dispatched_at: Timestamp) -> Timestamp {
    Timestamp::from_millis(dispatched_at.as_millis().saturating_add_signed(moved(priority)))
}

impl NewJob {
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::of(&self.meta.requires)
    }

    /// Its place in its queue, if it was dispatched then.
    #[must_use]
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
    fn a_kind_is_the_same_in_whatever_order_its_tags_were_said() {
        assert_eq!(kind(&["gpu", "arm:64"]), kind(&["arm:64", "gpu"]));
        assert_eq!(kind(&["gpu", "arm:64"]).as_str(), "arm:64+gpu");
        assert!(kind(&[]).is_usual());
    }

    #[test]
    fn only_who_is_capable_of_all_fits() {
        let both = kind(&["gpu", "linux"]);
        assert!(both.fits(&capabilities(&["linux", "gpu", "more"])));
        assert_eq!(both.missing(&capabilities(&["gpu-2", "linux"])), ["gpu"]);
        assert!(kind(&[]).fits(&[]));
        assert!(!kind(&["gpu"]).fits(&[]));
    }

    #[test]
    fn a_batch_job_is_overtaken_for_two_steps_and_no_longer() {
        let at = Timestamp::from_millis(1_000_000);
        let batch = place(Priority::Batch, at);
        assert!(place(Priority::Critical, at + PRIORITY_STEP * 2 - Duration::from_millis(1)) < batch);
        assert!(place(Priority::Critical, at + PRIORITY_STEP * 2 + Duration::from_millis(1)) > batch);
        assert!(place(Priority::Critical, at) < place(Priority::Interactive, at));
        assert!(place(Priority::Interactive, at) < batch);
    }
}
