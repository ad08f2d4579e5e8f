//! Why something waits: what for, who has that, since when, and for how long about.
//!
//! The sentences here are the only ones about waiting: `why` prints them, and so do errors that end a wait.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::admission::Usage;
use crate::time::millis;
use crate::{JobId, StepKey, Timestamp};

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $hint:literal;)*) => {
        /// What something waits for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum CauseCode {
            $($(#[$doc])* $name,)*
        }

        impl CauseCode {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// What can be done about it.
            #[must_use]
            pub fn hint(self) -> &'static str {
                match self {
                    $(Self::$name => $hint,)*
                }
            }
        }
    };
}

causes! {
    /// The tenant has as many live runs as it may.
    CapFull = "cap_full", "wait for one of these runs to end, cancel one, or raise the limit: interlock limits set";
    /// Other jobs come first.
    Queue = "queue", "start more workers for the topic, or wait";
    /// Nobody serves the topic.
    NoWorker = "no_worker", "start a worker for the topic: interlock worker run --topic …";
    /// Those who serve the topic lack something that the job requires.
    MissingCapability = "missing_capability", "start a worker that has these capabilities";
    /// All that serve the topic are busy.
    WorkerSaturated = "worker_saturated", "start more workers for the topic, or let these take more jobs at once";
    /// All that serve the topic are being emptied.
    WorkerDraining = "worker_draining", "start another worker, or end the draining: interlock workers drain --undo";
    ApprovalOpen = "approval_open", "answer it: interlock approval job … --approve, or --reject";
    Delay = "delay", "nothing: the workflow asked for this delay";
    RetryBackoff = "retry_backoff", "nothing: it is tried again then. The error of the last try may be worth a look";
    /// Somebody holds the lock: one that users take, or the run's own.
    LockHeld = "lock_held",
        "wait for its holder; one of users whose holder is gone for good: interlock locks force-release";
    PolicyUnavailable = "policy_unavailable", "bring the policy service back; tenants that fail open do not wait for it";
    PolicyThrottled = "policy_throttled", "wait, or change the rule: interlock dispatch-policy show";
    /// It was not judged yet.
    PolicyPending = "policy_pending", "nothing: it is being judged. Is a process with the role scheduler there?";
    /// A worker has it.
    Working = "working", "nothing, while its worker is heard of; its lease ends by itself if not";
    /// It is the engine's turn.
    Ready = "ready", "nothing, if a process with the role engine is there";
    /// Nothing: it has ended.
    Ended = "ended", "nothing";
    /// Nothing: it would be granted or admitted now.
    Free = "free", "ask for it; of a loop's lock that nobody takes, look for a foreign value under its key";
}

/// One reason, with all that is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    pub code: CauseCode,
    /// For people.
    pub sentence: String,
    /// Of a run: the step that waits.
    pub step: Option<StepKey>,
    pub job: Option<JobId>,
    pub since: Option<Timestamp>,
    /// When it is over by itself.
    pub until: Option<Timestamp>,
    /// Who has what is waited for.
    pub holders: Vec<Holder>,
    /// How many come first, and oneself; the first is 1.
    pub position: Option<u64>,
    /// About; from what happened lately, or from when it is over at the latest.
    pub expected_wait: Option<Duration>,
}

/// Somebody, or something, that has what another waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// A run, a worker, the owner of a lock, a process.
    pub name: String,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl Cause {
    #[must_use]
    pub fn new(code: CauseCode, sentence: impl Into<String>) -> Self {
        Self {
            code,
            sentence: sentence.into(),
            step: None,
            job: None,
            since: None,
            until: None,
            holders: Vec::new(),
            position: None,
            expected_wait: None,
        }
    }

    /// Over by itself at `until`.
    #[must_use]
    pub fn ending(self, until: Timestamp, now: Timestamp) -> Self {
        Self { until: Some(until), expected_wait: Some(until.since(now)), ..self }
    }
}

/// The tenant's slots.
#[must_use]
pub fn slots(usage: Usage) -> String {
    let Usage { runs_active, runs_max } = usage;
    format!("max concurrent runs reached: {runs_active} of {runs_max} are live")
}

/// A lock, its first holder and for how long somebody has held it; none: what holds it is not known here.
#[must_use]
pub fn lock(name: &str, holder: Option<&str>, held_for: Duration) -> String {
    match holder {
        Some(holder) => format!("{name} is held by {holder} for {} ms now", millis(held_for)),
        None => format!(
            "nobody holds {name} by this store's records: it is somebody else's turn, or its key in Redis has a value \
             that is not ours"
        ),
    }
}

/// What one who asked for a lock is told of its line.
#[must_use]
pub fn line(position: u32, is_full: bool) -> String {
    if is_full { "its line is full".to_owned() } else { format!("the caller's place in line is {position}") }
}

/// When the one at `position` goes, if those before it go at the pace of the moments at which others went lately.
#[must_use]
pub fn at_the_pace_of(went: &[Timestamp], position: u64) -> Option<Duration> {
    let (first, last) = (went.iter().min()?, went.iter().max()?);
    let gaps = u32::try_from(went.len().checked_sub(1)?).ok().filter(|gaps| *gaps > 0)?;
    let position = u32::try_from(position).unwrap_or(u32::MAX);
    Some((last.since(*first) / gaps).saturating_mul(position))
}

/// When so many of those that have lasted so long have ended, if each lasts as long as others did in the middle.
#[must_use]
pub fn until_have_ended(count: usize, ages: &[Duration], lasted: &[Duration]) -> Option<Duration> {
    let mut lasted = lasted.to_vec();
    lasted.sort_unstable();
    let usual = *lasted.get(lasted.len() / 2)?;
    let mut left: Vec<Duration> = ages.iter().map(|age| usual.saturating_sub(*age)).collect();
    left.sort_unstable();
    left.get(count.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn names_are_as_they_are_written() {
        for code in CauseCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), serde_json::json!(code.name()));
        }
    }

    #[test]
    fn a_wait_is_as_long_as_the_pace_of_those_before_lets_expect() {
        let went: Vec<_> = [10, 14, 12, 16].map(|second| Timestamp::from_millis(second * 1_000)).to_vec();
        assert_eq!(at_the_pace_of(&went, 3), Some(seconds(6)));
        assert_eq!(at_the_pace_of(&went[..1], 3), None, "one says nothing of a pace");
        assert_eq!(at_the_pace_of(&[], 3), None);
    }

    #[test]
    fn a_slot_is_expected_when_the_oldest_run_is_as_old_as_runs_become() {
        let lasted = [1, 9, 10, 11, 60].map(seconds);
        let ages = [seconds(2), seconds(7)];
        assert_eq!(until_have_ended(1, &ages, &lasted), Some(seconds(3)));
        assert_eq!(until_have_ended(2, &ages, &lasted), Some(seconds(8)), "with a cap below what lives");
        assert_eq!(until_have_ended(3, &ages, &lasted), None);
        assert_eq!(until_have_ended(1, &[seconds(20)], &lasted), Some(Duration::ZERO));
        assert_eq!(until_have_ended(1, &[seconds(20)], &[]), None);
        assert_eq!(until_have_ended(1, &[], &lasted), None);
    }
}
