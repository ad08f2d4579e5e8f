//! What must be true of an installation at any moment, and what is done where it is not.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::TenantId;

/// Where an invariant is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Realm {
    /// In the rows of each tenant.
    Tenant,
    /// In what belongs to no tenant, in the servers beneath, and in the processes themselves.
    Installation,
}

macro_rules! invariants {
    ($($(#[doc = $rule:literal])* $name:ident = $text:literal, $realm:ident, $plan:literal;)*) => {
        /// Something that is always true, unless something is wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Invariant {
            $($(#[doc = $rule])* $name,)*
        }

        impl Invariant {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// As programs know it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// What must be true.
            #[must_use]
            pub fn rule(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($rule),*).trim_ascii(),)*
                }
            }

            #[must_use]
            pub fn realm(self) -> Realm {
                match self {
                    $(Self::$name => Realm::$realm,)*
                }
            }

            /// What is done, or is to be done, where it is violated.
            #[must_use]
            pub fn plan(self) -> &'static str {
                match self {
                    $(Self::$name => $plan,)*
                }
            }
        }
    };
}

invariants! {
    /// A slot is held by a run that lives.
    SlotWithoutRun = "slot_without_run", Tenant, "give the slot back";
    /// A run that lives holds a slot.
    RunWithoutSlot = "run_without_slot", Tenant, "give the run a slot, over the cap if need be";
    /// The number of live runs that is written down is the number of slots.
    SlotCountDrift = "slot_count_drift", Tenant, "write the counted number down";
    /// An idempotency key names a run that is there, or was deleted.
    KeyWithoutRun = "key_without_run", Tenant, "free the key";
    /// A reserved idempotency key belongs to a start that is on its way.
    ReservationLeftBehind = "reservation_left_behind", Tenant, "free the key";
    /// A worker's lease is on a job that is open.
    LeaseWithoutJob = "lease_without_job", Tenant, "remove the lease";
    /// A worker's lease is found when it runs out.
    LeaseNotIndexed = "lease_not_indexed", Tenant, "put the lease into the index again";
    /// A job that is open waits in its queue or is with a worker.
    JobInNoIndex = "job_in_no_index", Tenant, "put the job back into its queue";
    /// What waits in a queue is an open job that no worker has.
    QueueEntryWithoutJob = "queue_entry_without_job", Tenant, "remove the entry";
    /// Every job can be found in the list of jobs.
    JobNotListed = "job_not_listed", Tenant, "put the job into the list again";
    /// An open job belongs to a run that lives.
    JobOfEndedRun = "job_of_ended_run", Tenant, "end the job and raise its fence";
    /// A step that waits for a job waits for one that is open, or whose result is on its way.
    StepWithoutJob = "step_without_job", Tenant, "tell the run that the job is lost, so that it is dispatched again";
    /// What is due is done soon.
    TimerOverdue = "timer_overdue", Tenant, "make the run ready";
    /// A run to which something happens by itself has a timer.
    TimerMissing = "timer_missing", Tenant, "set the timer";
    /// A timer belongs to a run that lives.
    TimerWithoutRun = "timer_without_run", Tenant, "remove the timer";
    /// A run with something in its inbox is ready for the engine.
    InboxNotDrained = "inbox_not_drained", Tenant, "make the run ready";
    /// What is ready for the engine is a run.
    ReadyWithoutRun = "ready_without_run", Tenant, "remove the mark";
    /// A run is held by a process that lives, for a time that ends.
    RunHoldWithoutHolder = "run_hold_without_holder", Tenant, "end the hold";
    /// An open approval belongs to a run that lives.
    ApprovalOfEndedRun = "approval_of_ended_run", Tenant, "withdraw the approval";
    /// An open approval can be found in the list of approvals.
    ApprovalNotListed = "approval_not_listed", Tenant, "put the approval into the list again";
    /// A result that is kept for another delivery belongs to an open job, and has a time.
    KeptResultNotDue = "kept_result_not_due", Tenant, "deliver it now, or forget it with its job";
    /// A lock is given back, or ends, on time.
    LockDebt = "lock_debt", Tenant, "end the hold that has run out";
    /// The number of locks that is written down is the number of locks.
    LockTallyDrift = "lock_tally_drift", Tenant, "write the counted number down";
    /// A lock that is held can be found in the list of locks.
    LockNotListed = "lock_not_listed", Tenant, "put the lock into the list again";
    /// What is written down can be read.
    RowDamaged = "row_damaged", Tenant, "look at the row by hand: nobody but a person can tell what it was";
    /// Dead letters are looked at before there are too many.
    DeadLettersGrowing = "dead_letters_growing", Tenant, "look at them: interlock dlq list; then retry or delete them";

    /// The snapshot of the workers is as young as its period promises.
    SnapshotStale = "snapshot_stale", Installation, "write it again, if nobody else does";
    /// Each loop that one replica at a time runs is run by one.
    LoopNotTicking = "loop_not_ticking", Installation,
        "start a replica with the loop's role, or look at the log of its holder";
    /// The wake-ups and results of the bus arrive.
    BusAway = "bus_away", Installation, "bring NATS back; until then all goes on at the poll's pace";
    /// Results on the stream are taken as they come.
    StreamLag = "stream_lag", Installation,
        "start another replica with the role scheduler, or find what its replicas wait for";
    /// The stream of results has its consumer.
    ConsumerGone = "consumer_gone", Installation, "make the consumer again";
    /// The clocks of the replicas agree with the store's.
    ClockSkew = "clock_skew", Installation, "synchronise the clock of that machine";
    /// Whoever holds a lease renews it well before it ends.
    RenewalLag = "renewal_lag", Installation, "find what that process waits for: its leases are close to their end";
    /// The store refuses writes rather than throw data away when memory is short.
    MemoryPolicy = "memory_policy", Installation, "set maxmemory-policy to noeviction";
    /// The store is given as much memory as it needs.
    MemoryShort = "memory_short", Installation, "give Redis more memory before it refuses writes";
    /// A worker that is registered and holds jobs is heard of.
    WorkerSilent = "worker_silent", Installation, "end what it holds, so that others get it";
}

impl fmt::Display for Invariant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Invariant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|known| known.name() == text);
        found.copied().ok_or_else(|| format!("there is no invariant {text:?}"))
    }
}

/// One place where an invariant does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub invariant: Invariant,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The run, job, key, lock, row, loop or server that it is about. With the invariant and the tenant it names the
    /// finding.
    pub subject: String,
    /// One sentence for people: what was found.
    pub detail: String,
    /// Whether `--repair` can mend it.
    pub is_repairable: bool,
}

/// What came of mending one finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum Mending {
    Mended,
    /// It was not there any more.
    NothingToDo,
    /// One sentence: why not.
    Impossible {
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_read_back_as_they_are_written() {
        for (position, invariant) in Invariant::ALL.iter().enumerate() {
            assert_eq!(invariant.name().parse(), Ok(*invariant));
            let written = serde_json::to_value(invariant).unwrap();
            assert_eq!(written, serde_json::json!(invariant.name()));
            assert!(Invariant::ALL[..position].iter().all(|other| other.name() != invariant.name()));
        }
    }
}
