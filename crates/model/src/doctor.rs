//! The invariants of an installation and how to repair a violation.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::TenantId;

/// Where an invariant is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Realm {
    /// In the rows of each tenant.
    Tenant,
    /// In shared state, in Redis and NATS, and in the processes themselves.
    Installation,
}

macro_rules! invariants {
    ($($(#[doc = $rule:literal])* $name:ident = $text:literal, $realm:ident, $plan:literal;)*) => {
        crate::named_enum! {
            /// A condition that always holds unless something is broken.
            #[derive(PartialOrd, Ord, Hash)]
            pub enum Invariant {
                $($(#[doc = $rule])* $name = $text,)*
            }
        }

        impl Invariant {
            /// What must hold.
            pub fn rule(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($rule),*).trim_ascii(),)*
                }
            }

            pub fn realm(self) -> Realm {
                match self {
                    $(Self::$name => Realm::$realm,)*
                }
            }

            /// The repair, or what an operator has to do.
            pub fn plan(self) -> &'static str {
                match self {
                    $(Self::$name => $plan,)*
                }
            }
        }
    };
}

invariants! {
    /// Every slot belongs to a live run.
    SlotWithoutRun = "slot_without_run", Tenant, "release the slot";
    /// Every live run holds a slot, or is a child in that of its root.
    RunWithoutSlot = "run_without_slot", Tenant, "give the run a slot, even above the cap";
    /// The stored count of active runs equals the number of slots.
    SlotCountDrift = "slot_count_drift", Tenant, "store the counted number";
    /// Every slot of a named limit belongs to a live run.
    LimitSlotWithoutRun = "limit_slot_without_run", Tenant, "release the slot";
    /// Every live run holds a slot in each group that it counts in.
    RunWithoutLimitSlot = "run_without_limit_slot", Tenant, "give the run a slot, even above the limit";
    /// The stored counts of a group equal the numbers of its slots and of its waiting runs.
    LimitCountDrift = "limit_count_drift", Tenant, "store the counted numbers";
    /// The groups of a fair queue are those of the runs that wait in it.
    FairQueueDrift = "fair_queue_drift", Tenant, "list the groups and their runs again";
    /// Every queued run waits in exactly one queue, or for newer starts.
    QueuedRunInNoQueue = "queued_run_in_no_queue", Tenant, "put the run into the queue of its tenant's slots, in its place";
    /// Every entry of a limit's queue belongs to a run that waits there.
    LimitQueueEntryWithoutRun = "limit_queue_entry_without_run", Tenant, "remove the entry";
    /// A run that waits for newer starts is listed in its group, and has a timer that ends its wait.
    DebouncedRunWithoutTimer = "debounced_run_without_timer", Tenant, "list the run and set its timer";
    /// Every run that a group lists as waiting for newer starts waits for them there.
    DebounceEntryWithoutRun = "debounce_entry_without_run", Tenant, "remove the entry";
    /// No queued run waits that could start.
    StartableRunWaits = "startable_run_waits", Tenant, "set the timer that starts it";
    /// A live child has a step that waits for it, or is being cancelled.
    ChildWithoutStep = "child_without_step", Tenant, "let its step wait for it again, or cancel it";
    /// A step that waits for a child has one that is live or to be started, or its end in the run's inbox.
    StepWithoutChild = "step_without_child", Tenant,
        "report the child to its run as lost, so that the step fails or is tried again";
    /// A child that is to be started is in the index of starts.
    ChildStartNotDue = "child_start_not_due", Tenant, "add the start to the index again";
    /// A step that waits for what is sent to a key is in the index of those.
    EventWaiterNotIndexed = "event_waiter_not_indexed", Tenant, "add the step to the index again";
    /// What the index of those names is a step that waits.
    EventWaiterWithoutStep = "event_waiter_without_step", Tenant, "remove the entry";
    /// An idempotency key names a run that exists or was deleted.
    KeyWithoutRun = "key_without_run", Tenant, "free the key";
    /// A reserved idempotency key belongs to a start in progress.
    ReservationLeftBehind = "reservation_left_behind", Tenant, "free the key";
    /// A worker's lease belongs to an open job.
    LeaseWithoutJob = "lease_without_job", Tenant, "remove the lease";
    /// A worker's lease is in the expiry index.
    LeaseNotIndexed = "lease_not_indexed", Tenant, "add the lease to the index again";
    /// An open job is in its queue, held by a policy, or leased to a worker.
    JobInNoIndex = "job_in_no_index", Tenant, "put the job back into its queue";
    /// A queue entry belongs to an open job that no worker has leased.
    QueueEntryWithoutJob = "queue_entry_without_job", Tenant, "remove the entry";
    /// Every job is in the list of jobs.
    JobNotListed = "job_not_listed", Tenant, "add the job to the list again";
    /// An open job belongs to a live run.
    JobOfEndedRun = "job_of_ended_run", Tenant, "end the job and raise its fence";
    /// A step that waits for a job has an open job, or a result in its run's inbox.
    StepWithoutJob = "step_without_job", Tenant, "report the job to its run as lost, so that it is dispatched again";
    /// A timer fires soon after it is due.
    TimerOverdue = "timer_overdue", Tenant, "mark the run ready";
    /// A run with a pending retry, delay or timeout has a timer.
    TimerMissing = "timer_missing", Tenant, "set the timer";
    /// A timer belongs to a live run.
    TimerWithoutRun = "timer_without_run", Tenant, "remove the timer";
    /// A run with events in its inbox is marked ready.
    InboxNotDrained = "inbox_not_drained", Tenant, "mark the run ready";
    /// A ready mark belongs to an existing run.
    ReadyWithoutRun = "ready_without_run", Tenant, "remove the mark";
    /// A run lease belongs to a live process and expires.
    RunHoldWithoutHolder = "run_hold_without_holder", Tenant, "end the lease";
    /// Every run is advanced.
    RunQuarantined = "run_quarantined", Tenant, "try the run again, alone; or cancel or delete it";
    /// An open approval belongs to a live run.
    ApprovalOfEndedRun = "approval_of_ended_run", Tenant, "withdraw the approval";
    /// An open approval is in the list of approvals.
    ApprovalNotListed = "approval_not_listed", Tenant, "add the approval to the list again";
    /// A deferred result belongs to an open job and has a time for its next delivery.
    KeptResultNotDue = "kept_result_not_due", Tenant, "deliver it now, or delete it with its job";
    /// A lock is released, or expires, on time.
    LockDebt = "lock_debt", Tenant, "end the expired lease";
    /// The stored count of locks equals the number of locks.
    LockTallyDrift = "lock_tally_drift", Tenant, "store the counted number";
    /// A held lock is in the list of locks.
    LockNotListed = "lock_not_listed", Tenant, "add the lock to the list again";
    /// The counters of a budget equal the sum of its permits.
    BudgetDrift = "budget_drift", Tenant, "store the counted numbers";
    /// An open permit is in the expiry index.
    PermitNotDue = "permit_not_due", Tenant, "add the permit to the index again";
    /// The open permit of a step belongs to an open job.
    PermitWithoutJob = "permit_without_job", Tenant, "count the permit as unsettled";
    /// A permit belongs to a budget that exists.
    PermitWithoutBudget = "permit_without_budget", Tenant, "remove the permits of the budget";
    /// Every stored row can be parsed.
    RowDamaged = "row_damaged", Tenant, "inspect the row by hand: its content cannot be derived";
    /// Dead letters are handled before there are too many.
    DeadLettersGrowing = "dead_letters_growing", Tenant, "list them with `interlock dlq list`, then retry or delete them";

    /// The store is the one that the process began with.
    StoreDataLost = "store_data_lost", Installation,
        "restore the store if you can, then restart every process of the installation";
    /// The snapshot of the workers is no older than its period allows.
    SnapshotStale = "snapshot_stale", Installation, "write the snapshot again, unless another replica does";
    /// Exactly one replica runs each singleton loop.
    LoopNotTicking = "loop_not_ticking", Installation,
        "start a replica with the loop's role, or check the log of the replica that holds its lock";
    /// NATS delivers wake-ups and results.
    BusAway = "bus_away", Installation, "restore NATS; until then, work continues at the polling interval";
    /// Results on the stream are consumed without delay.
    StreamLag = "stream_lag", Installation,
        "start another replica with the role scheduler, or find out what blocks the existing ones";
    /// The result stream has its consumer.
    ConsumerGone = "consumer_gone", Installation, "create the consumer again";
    /// The clocks of the replicas agree with the store's clock.
    ClockSkew = "clock_skew", Installation, "synchronise the clock of that machine";
    /// Every holder renews its lease well before the lease expires.
    RenewalLag = "renewal_lag", Installation, "find out what blocks that process: its leases are about to expire";
    /// Redis rejects writes instead of evicting data when memory is short.
    MemoryPolicy = "memory_policy", Installation, "set maxmemory-policy to noeviction";
    /// Redis has enough memory.
    MemoryShort = "memory_short", Installation, "give Redis more memory before it rejects writes";
    /// A worker on NATS confirms a job soon after it was pushed.
    PushUnconfirmed = "push_unconfirmed", Installation,
        "nothing, if it passes: three heartbeats that do not count the job, or a silent worker, dispatch it again; \
         if it stays, look at the worker and its connection to NATS";
    /// The TLS certificate of the server is valid.
    CertificateExpired = "certificate_expired", Installation,
        "renew the certificate: the server takes the new file within two seconds, without a restart";
    /// A registered worker with leased jobs sends heartbeats.
    WorkerSilent = "worker_silent", Installation, "end its leases, so that other workers get the jobs";
}

impl fmt::Display for Invariant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Invariant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::named(text).ok_or_else(|| format!("unknown invariant {text:?}"))
    }
}

/// One violation of an invariant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub invariant: Invariant,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The run, job, key, lock, row, loop or server concerned. Invariant, tenant and subject identify the finding.
    pub subject: String,
    /// What was found, as one sentence.
    pub detail: String,
    /// Whether `--repair` can repair it.
    pub is_repairable: bool,
}

/// The outcome of repairing one finding.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum RepairOutcome {
    Repaired,
    /// The violation no longer exists.
    NothingToDo,
    Impossible {
        reason: String,
    },
}
