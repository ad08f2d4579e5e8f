//! Why something waits: its cause, the holders, since when and for how long.
//!
//! `why` and the errors that end a wait share these sentences.

mod limit;

use std::time::Duration;

use crate::admission::Usage;
use crate::time::millis;
use crate::{JobId, StepKey, Timestamp};

pub use limit::{LimitReason, LimitWait, SlotOwner, WaitOutcome, about, of_tenant};

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $hint:literal;)*) => {
        $crate::named_enum! {
            /// What something waits for.
            pub enum CauseCode {
                $($(#[$doc])* $name = $text,)*
            }
        }

        impl CauseCode {
            /// What the reader can do about it.
            pub fn hint(self) -> &'static str {
                match self {
                    $(Self::$name => $hint,)*
                }
            }
        }
    };
}

causes! {
    /// The tenant has reached its limit of active runs.
    CapFull = "cap_full", "wait for one of these runs to end, cancel one, or raise the limit: `interlock limits set`";
    /// The run waits for a slot of a limit, and starts by itself.
    Queued = "queued", "wait, raise the limit, or move the run: `interlock run move RUN --front`";
    /// The limit that the run waits for is paused.
    Blocked = "blocked", "resume the limit: `interlock limits resume LIMIT`";
    /// The limit that the run waits for allows no runs.
    Impossible = "impossible", "raise the limit: `interlock limits set LIMIT --max-runs N`. Nothing else helps";
    /// A limit needs the input of a start to tell whether it may begin.
    Depends = "depends_on_input", "ask with an input: `interlock limits explain --workflow W --input JSON`";
    /// The run waits until no newer start of its group has come for a while.
    Debounced = "debounced",
        "wait: it goes on by itself. `interlock limits show LIMIT` has its `quiet_sec` and `max_delay_sec`";
    /// Other jobs are ahead in the queue.
    Queue = "queue", "start more workers for the topic, or wait";
    /// No online worker serves the topic.
    NoWorker = "no_worker", "start one: `interlock worker run --topic TOPIC -- CMD`";
    /// The workers of the topic lack a required capability.
    MissingCapability = "missing_capability", "start a worker that has these capabilities";
    /// All workers of the topic are busy.
    WorkerSaturated = "worker_saturated", "start more workers for the topic, or raise their concurrency";
    /// All workers of the topic are draining.
    WorkerDraining = "worker_draining", "start another worker, or stop draining: `interlock workers drain --undo`";
    ApprovalOpen = "approval_open", "resolve it: `interlock approval job JOB --approve` or `--reject`";
    Delay = "delay", "nothing to do: the workflow defines this delay";
    /// The step waits for an event that is sent to its run.
    EventAwaited = "event_awaited", "send it: `interlock run send-event RUN NAME --data JSON`";
    RetryBackoff = "retry_backoff", "nothing to do: the retry is scheduled. Check the error of the last attempt";
    /// A user's lock or a run's lock is held.
    LockHeld = "lock_held",
        "wait for the holder. If the holder of a user's lock has crashed: `interlock locks force-release`";
    PolicyUnavailable = "policy_unavailable", "restore the policy service; tenants that fail open do not wait for it";
    PolicyThrottled = "policy_throttled", "wait, or change the rule: `interlock dispatch-policy show`";
    /// The dispatch policy has not decided yet.
    PolicyPending = "policy_pending", "nothing to do while a process with the role scheduler is online";
    /// The budget of the step has not been asked yet.
    BudgetPending = "budget_pending", "nothing to do while a process with the role scheduler is online";
    /// The budget of the step has too little left.
    BudgetExhausted = "budget_exhausted",
        "wait until something of it is settled or released, or until it resets if it ever does; or raise it: \
         `interlock budgets adjust`";
    /// It was pushed to a worker that is not known to have it yet.
    Dispatched = "dispatched",
        "nothing to do: if the worker's heartbeats do not count the job, it is dispatched again";
    /// A worker runs it.
    Working = "working", "nothing to do: if the worker stops sending heartbeats, its lease expires";
    /// No process advances it any more.
    Quarantined = "quarantined",
        "remove the cause, then try the run again: `interlock dlq retry JOB`. Or end it: `interlock run cancel RUN`";
    /// The engine advances it next.
    Ready = "ready", "nothing to do while a process with the role engine is online";
    /// It has ended and waits for nothing.
    Ended = "ended", "nothing to do";
    /// A request would succeed now.
    Free = "free",
        "nothing to do: a request would be granted now. If a loop never takes its lock, check its key for a foreign value";
}

/// One cause of a wait.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    pub code: CauseCode,
    pub sentence: String,
    /// The step that waits, for a run.
    pub step: Option<StepKey>,
    pub job: Option<JobId>,
    pub since: Option<Timestamp>,
    /// When the wait ends at the latest.
    pub until: Option<Timestamp>,
    /// Who holds what is waited for.
    pub holders: Vec<Holder>,
    /// The position in the queue, from 1.
    pub position: Option<u64>,
    /// An estimate, from recent history or from `until`.
    pub expected_wait: Option<Duration>,
}

/// A holder of what another waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// A run, a worker, the owner of a lock, or a process.
    pub name: String,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl Cause {
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

    /// Ends at `until` at the latest.
    pub fn ending(self, until: Timestamp, now: Timestamp) -> Self {
        Self { until: Some(until), expected_wait: Some(until.since(now)), ..self }
    }
}

/// The tenant has no free slot.
pub fn slots(usage: Usage) -> String {
    let Usage { runs_active, runs_max } = usage;
    format!("max concurrent runs reached: {runs_active} of {runs_max} are active")
}

/// A held lock. Without a holder, the store does not know who holds it.
pub fn lock(name: &str, holder: Option<&str>, held_for: Duration) -> String {
    match holder {
        Some(holder) => format!("{name} has been held by {holder} for {} ms", millis(held_for)),
        None => format!(
            "{name} has no recorded holder: another waiter is first, or its Redis key contains a foreign value"
        ),
    }
}

/// The caller's position in a lock's queue.
pub fn queue_position(position: u32, is_full: bool) -> String {
    if is_full {
        "its queue is full".to_owned()
    } else {
        format!("the caller is at position {position} in its queue")
    }
}

/// The expected wait at `position`, by the mean interval between recent departures.
pub fn at_the_pace_of(went: &[Timestamp], position: u64) -> Option<Duration> {
    let (first, last) = (went.iter().min()?, went.iter().max()?);
    let gaps = u32::try_from(went.len().checked_sub(1)?).ok().filter(|gaps| *gaps > 0)?;
    let position = u32::try_from(position).unwrap_or(u32::MAX);
    Some((last.since(*first) / gaps).saturating_mul(position))
}

/// The expected wait until `count` runs of these ages have ended, by the median duration of earlier runs.
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
    fn the_expected_wait_follows_the_mean_interval_of_recent_departures() {
        let went: Vec<_> = [10, 14, 12, 16].map(|second| Timestamp::from_millis(second * 1_000)).to_vec();
        assert_eq!(at_the_pace_of(&went, 3), Some(seconds(6)));
        assert_eq!(at_the_pace_of(&went[..1], 3), None, "one departure has no interval");
        assert_eq!(at_the_pace_of(&[], 3), None);
    }

    #[test]
    fn a_slot_is_expected_when_the_oldest_run_reaches_the_median_duration() {
        let lasted = [1, 9, 10, 11, 60].map(seconds);
        let ages = [seconds(2), seconds(7)];
        assert_eq!(until_have_ended(1, &ages, &lasted), Some(seconds(3)));
        assert_eq!(until_have_ended(2, &ages, &lasted), Some(seconds(8)), "the cap is below the active runs");
        assert_eq!(until_have_ended(3, &ages, &lasted), None);
        assert_eq!(until_have_ended(1, &[seconds(20)], &lasted), Some(Duration::ZERO));
        assert_eq!(until_have_ended(1, &[seconds(20)], &[]), None);
        assert_eq!(until_have_ended(1, &[], &lasted), None);
    }
}
