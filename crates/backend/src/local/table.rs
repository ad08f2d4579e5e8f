//! The tables, and how a damaged row of one is recognised.

use interlock_model::admission::KeyRecord;
use interlock_model::approval::Approval;
use interlock_model::budget::{Amount, Ledger, Permit};
use interlock_model::dead_letter::DeadLetter;
use interlock_model::dispatch_policy::Hold;
use interlock_model::event::EventTally;
use interlock_model::fingerprint::Fingerprint;
use interlock_model::history::Event;
use interlock_model::job::{Job, JobLease};
use interlock_model::limit::fair::FairGroup;
use interlock_model::limit::group::Group;
use interlock_model::limit::place::RunSlots;
use interlock_model::lock::{LockEvent, Waiter};
use interlock_model::run::{Head, InboxEvent, Start};
use interlock_model::step::StepRun;
use interlock_model::tenant::Tenant;
use interlock_model::{JobId, PermitId, RunId, StepKey};

use super::children::ChildStart;
use super::deliveries::DeferredRow;
use super::inspection::damage::{RowCheck, key, row, value};
use super::jobs::ProgressRow;
use super::keyed_events::KeyedEvent;
use super::locks::{Record, Tally};
use super::rows::{RunLease, WorkflowHead};
use super::slots::{QueueEntry, SlotHolder};
use crate::budgets::{Budget, BudgetEvent};
use crate::limits::StoredLimit;
use crate::workers::WorkerRecord;
use crate::workflows::WorkflowVersion;

macro_rules! tables {
    ($($(#[$doc:meta])* $table:ident = $name:literal: $check:expr,)*) => {
        /// A table: keys in byte order, values in JSON.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Table {
            $($(#[$doc])* $table,)*
        }

        impl Table {
            pub const ALL: &[Self] = &[$(Self::$table),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$table => $name,)*
                }
            }

            /// Finds damage in a row of a tenant. None for rows of no tenant, for counts that restart with the next
            /// period, and for lists that are rebuilt from what they name.
            pub(super) fn row_check(self) -> Option<RowCheck> {
                match self {
                    $(Self::$table => $check,)*
                }
            }
        }
    };
}

tables! {
    /// `tenant` → limits, live runs, last fence.
    Tenants = "tenants": Some(value::<Tenant>),
    /// `limits` → the system's limits.
    System = "system": None,
    /// `tenant/workflow` → its current version, or that it is deleted.
    WorkflowHeads = "workflow_heads": Some(value::<WorkflowHead>),
    /// `tenant/time/workflow` for each workflow that is not deleted, by when it was last saved.
    WorkflowListing = "workflow_listing": None,
    /// `tenant/workflow/version` → the document.
    WorkflowVersions = "workflow_versions": Some(value::<WorkflowVersion>),
    /// `tenant/workflow/key` → the run that an idempotency key started.
    IdempotencyKeys = "idempotency_keys": Some(value::<KeyRecord>),
    /// `tenant/run` → what was asked.
    Starts = "starts": Some(row::<RunId, Start>),
    /// `tenant/run` → the state of the run.
    Heads = "heads": Some(row::<RunId, Head>),
    /// `tenant/run/step` → the state of the step.
    Steps = "steps": Some(row::<StepKey, StepRun>),
    /// `tenant/run` for each run that was deleted: a start whose reply was lost must not bring it back.
    DeletedRuns = "deleted_runs": None,
    /// `tenant/run` for each run that holds a slot.
    Active = "active": Some(key::<RunId>),
    /// `tenant/limit` → a named limit.
    Limits = "limits": Some(value::<StoredLimit>),
    /// `tenant/limit/group` → how many of its slots are taken, and how many runs wait.
    LimitGroups = "limit_groups": Some(value::<Group>),
    /// `tenant/limit/group/run` for each run that holds a slot of a named limit.
    LimitSlots = "limit_slots": Some(row::<RunId, SlotHolder>),
    /// `tenant/run` → the groups of named limits that the run counts in, and where it waits.
    RunSlots = "run_slots": Some(row::<RunId, RunSlots>),
    /// `tenant/limit/group/score/arrival/run` for each run that waits for slots.
    RunQueue = "run_queue": Some(row::<RunId, QueueEntry>),
    /// `tenant/limit/group/fair/score/arrival/run` for each run that waits in a group of a fair queue.
    FairQueue = "fair_queue": Some(row::<RunId, QueueEntry>),
    /// `tenant/limit/group/fair` → what a group of a fair queue is charged, and how many of its runs wait.
    FairGroups = "fair_groups": Some(value::<FairGroup>),
    /// `tenant/limit/group/state/charge/turn/fair` for each of them, by whose turn comes next.
    FairTurns = "fair_turns": None,
    /// `tenant/workflow` → how many milliseconds runs of fair queues hold their slots.
    RunMeans = "run_means": Some(value::<u64>),
    /// `tenant/limit/group/workflow/run` for each run that waits for newer starts.
    Debounced = "debounced_runs": Some(key::<RunId>),
    /// `tenant/time/limit/group` for each group whose slots are granted then, and `tenant/time/limit/+run` for each run
    /// whose quiet period ends then.
    LimitTimers = "limit_timers": None,
    /// `tenant/run` for each run that has something to take into account.
    Ready = "ready": Some(key::<RunId>),
    /// `tenant/run/number` → what a run must take into account.
    Inbox = "inbox": Some(row::<u64, InboxEvent>),
    /// `tenant/run/event` → the fingerprint of an event that was sent to the run.
    RunEvents = "run_events": Some(value::<Fingerprint>),
    /// `tenant/run` → how many events it got.
    EventTallies = "event_tallies": Some(row::<RunId, EventTally>),
    /// `tenant/name/key/run/step` for each step that waits for what is sent to a key.
    EventWaiters = "event_waiters": None,
    /// `tenant/event` → an event that was sent to a key.
    KeyedEvents = "keyed_events": Some(value::<KeyedEvent>),
    /// `tenant/name/key/time/event` for each of them that is kept.
    KeptEvents = "kept_events": None,
    /// `tenant/time/event` for each of them, by when it is delivered on or forgotten.
    EventsDue = "events_due": None,
    /// `tenant/run` → who advances the run now.
    RunLeases = "run_leases": Some(row::<RunId, RunLease>),
    /// `tenant/time/run` for each run to which something happens by itself.
    Timers = "timers": Some(key::<RunId>),
    /// `tenant/run/number` → what happened.
    Timeline = "timeline": Some(row::<u64, Event>),
    /// `tenant/job` → the job.
    Jobs = "jobs": Some(row::<JobId, Job>),
    /// `tenant/time/job` for each job, by when it was dispatched.
    JobListing = "job_listing": Some(key::<JobId>),
    /// `tenant/topic/time/job`, or `tenant/topic+kind/time/job`, for each job that waits for a worker.
    Queue = "queue": Some(key::<JobId>),
    /// `tenant/job` → the worker's lease.
    JobLeases = "job_leases": Some(row::<JobId, JobLease>),
    /// `tenant/time/job` for each lease, by when it expires.
    JobExpiries = "job_expiries": Some(key::<JobId>),
    /// `tenant/time/job` for each job that no worker has claimed, by when it ends unless one does.
    QueueTimeouts = "queue_timeouts": Some(key::<JobId>),
    /// `tenant/job` → the row of the timeline that holds the worker's last progress.
    JobProgress = "job_progress": Some(row::<JobId, ProgressRow>),
    /// `tenant/job` → a deferred result.
    Deferred = "put_off": Some(row::<JobId, DeferredRow>),
    /// `tenant/time/job` for each of them, by when it is due.
    DeferredDue = "put_off_due": Some(key::<JobId>),
    /// `tenant/job` → why a policy holds the job.
    Held = "held": Some(row::<JobId, Hold>),
    /// `tenant/time/job` for each of them that does not wait for an approval, by when it is due.
    HeldDue = "held_due": Some(key::<JobId>),
    /// `tenant/run/child` for each child that a step of the run waits for.
    Children = "children": Some(key::<RunId>),
    /// `tenant/child` → a child that is to be started.
    ChildStarts = "child_starts": Some(row::<RunId, ChildStart>),
    /// `tenant/time/child` for each of them, by when it is due.
    ChildrenDue = "children_due": Some(key::<RunId>),
    /// `tenant/rule` → how many jobs a rule of the dispatch policy has released in its period.
    Throttles = "throttles": None,
    /// `tenant/job` → the approval.
    Approvals = "approvals": Some(row::<JobId, Approval>),
    /// `tenant/job` for each approval that is open.
    OpenApprovals = "open_approvals": Some(key::<JobId>),
    /// `tenant/job` → the dead letter.
    DeadLetters = "dead_letters": Some(row::<JobId, DeadLetter>),
    /// `tenant/budget` → its document and its counts.
    Budgets = "budgets": Some(value::<Budget>),
    /// `tenant/budget/window/group` → the ledger; `*` stands for all groups of the window.
    BudgetLedgers = "budget_ledgers": Some(value::<Ledger>),
    /// `tenant/budget/permit` → the permit.
    BudgetPermits = "budget_permits": Some(row::<PermitId, Permit>),
    /// `tenant/time/budget/what` for each open permit, by when it expires, and each ledger, by when it is looked at.
    BudgetDue = "budget_due": None,
    /// `tenant/budget/time/permit` for each permit that has ended, by when it is forgotten.
    BudgetEnded = "budget_ended": Some(key::<PermitId>),
    /// `tenant/budget/group/since/job` → what the job is to reserve, for each that waits for the budget.
    BudgetQueue = "budget_queue": Some(row::<JobId, Amount>),
    /// `tenant/budget/number` → what happened to it.
    BudgetEvents = "budget_events": Some(row::<u64, BudgetEvent>),
    /// `tenant/worker` → when and how it was last seen.
    Workers = "workers": Some(value::<WorkerRecord>),
    /// `key` → the API key.
    ApiKeys = "api_keys": None,
    /// `worker` → a worker on NATS, as it was last heard.
    Registry = "registry": None,
    /// `home/lock` → its holders. A home is a tenant; a lock of the control plane itself has one of its own.
    Locks = "locks": Some(value::<Record>),
    /// `home/lock/place` → a waiter.
    LockQueue = "lock_line": Some(value::<Waiter>),
    /// `home/lock/number` → what happened to it.
    LockHistory = "lock_history": Some(value::<LockEvent>),
    /// `home/time/lock` for each lock that is held, by since when.
    LockListing = "lock_listing": None,
    /// `home/time/lock` for each lock, by when all of its leases and waiters have expired, or it can be forgotten.
    LockSweeps = "lock_sweeps": None,
    /// `home` → how many locks it holds and waits for.
    LockTallies = "lock_tallies": Some(value::<Tally>),
    /// `name` → a document about the installation, with its version.
    Documents = "documents": None,
    /// `rollout/instance` → what a process has counted of a rollout.
    Figures = "figures": None,
}
