//! The one list of all verbs. What is written once over all of them (dispatch in the backends, fault injection, the
//! simulation's checks, the comparison with memory) is generated from it, so that a verb left out does not compile.

pub use crate::approvals::{ListApprovals, ResolveApproval};
pub use crate::budgets::{
    AdjustBudget, DeleteBudget, ExpirePermits, ListBudgetEvents, ListBudgetGroups, ListBudgets, ReadBudget,
    ReleasePermit, RenewPermit, ReserveBudget, SaveBudget, SettlePermit,
};
pub use crate::children::{AcquireChildStarts, SettleChildStart};
pub use crate::dead_letters::{
    AddDeadLetter, CountDeadLetters, DeleteDeadLetter, ListDeadLetters, ReadDeadLetter, RetryDeadLetter,
};
pub use crate::deliveries::{AcquireDeferredResults, DeferResult, DeliverResult};
pub use crate::documents::{DeleteFigures, ReadDocument, ReadFigures, SaveDocument, SaveFigures};
pub use crate::events::{SendEvent, SendKeyedEvent, SpreadEvents};
pub use crate::history::ReadTimeline;
pub use crate::inspection::{Inspect, InspectUnlisted, Repair};
pub use crate::jobs::{
    AbandonWorker, CancelJob, Claim, CountJobsBefore, ExpireLeases, ExtendJobLease, ListJobs, ReadJob,
    RecordProgress, RecordResult,
};
pub use crate::keys::{CreateApiKey, ListApiKeys, RevokeApiKey, RotateApiKey};
pub use crate::limits::{
    AdoptSystemLimits, DeleteLimit, ListLimits, ListQueuedRuns, ListSlots, MoveQueuedRun, PauseLimit,
    ReadDebouncedRun, ReadLimitUsage, ReadQueuedRun, SaveLimit,
};
pub use crate::locks::{
    AcquireLock, ForceReleaseLock, ListLockHistory, ListLocks, ReadLock, ReleaseLock, RenewLock, WithdrawLock,
};
pub use crate::policy_holds::{AcquireHeldJobs, SettleHeldJob};
pub use crate::reconcile::{ListExpiredLeases, RepairSlots, RequeueJobs, Retire};
pub use crate::registry::{
    DrainNatsWorker, ForgetNatsWorker, ReadRegistry, ReadSnapshot, RecordBeat, RegisterNatsWorker,
    SaveSnapshot,
};
pub use crate::reservations::{CountRuns, ReleaseIdempotencyKey, ReserveIdempotencyKey};
pub use crate::runs::{
    AcquireReadyRuns, AcquireRun, Admit, Commit, DeleteRun, ExtendRunLease, FindDue, FireTimers,
    ListActiveRuns, ListRuns, ReadRun, ReadRunOwnership, ReadRunStatuses, ReadUsage, ReleaseRun,
    RequestCancel,
};
pub use crate::suspects::{AcquireSuspect, BeginTry};
pub use crate::tenants::{ListTenants, ReadEffectiveLimits, ReadLimits, SetLimits};
use crate::verb::Verb;
pub use crate::workers::{DrainWorker, ForgetWorker, ListWorkers, ReadWorker};
pub use crate::workflows::{DeleteWorkflow, ListWorkflows, ReadWorkflow, ReadWorkflowVersion, SaveWorkflow};

/// Calls the macro `$then` with `$arguments` and every verb.
#[macro_export]
macro_rules! for_each_verb {
    ($then:ident! $arguments:tt) => {
        $then! { $arguments
            reads {
                CountDeadLetters, CountJobsBefore, CountRuns, FindDue, Inspect, InspectUnlisted, ListActiveRuns,
                ListApiKeys, ListApprovals, ListBudgetEvents, ListBudgetGroups, ListBudgets, ListDeadLetters,
                ListExpiredLeases, ListJobs, ListLimits, ListLockHistory, ListLocks, ListQueuedRuns, ListRuns,
                ListSlots, ListTenants, ListWorkers, ListWorkflows, ReadBudget, ReadDeadLetter, ReadDocument,
                ReadDebouncedRun, ReadEffectiveLimits, ReadFigures, ReadJob, ReadLimitUsage, ReadLimits, ReadLock,
                ReadQueuedRun,
                ReadRegistry, ReadRun, ReadRunOwnership, ReadRunStatuses, ReadSnapshot, ReadTimeline, ReadUsage, ReadWorker,
                ReadWorkflow, ReadWorkflowVersion
            }
            writes {
                AbandonWorker, AcquireChildStarts, AcquireDeferredResults, AcquireHeldJobs, AcquireLock,
                AcquireReadyRuns, AcquireRun,
                AcquireSuspect, AddDeadLetter, AdjustBudget, Admit, AdoptSystemLimits,
                BeginTry, CancelJob, Claim, Commit, CreateApiKey,
                DeferResult, DeleteBudget, DeleteDeadLetter, DeleteFigures, DeleteLimit, DeleteRun, DeleteWorkflow,
                DeliverResult, DrainNatsWorker, DrainWorker, ExpireLeases, ExpirePermits, ExtendJobLease,
                ExtendRunLease, FireTimers, ForceReleaseLock, ForgetNatsWorker, ForgetWorker, MoveQueuedRun, PauseLimit,
                RecordBeat, RecordProgress, RecordResult, RegisterNatsWorker, ReleaseIdempotencyKey, ReleaseLock,
                ReleasePermit, ReleaseRun, RenewLock, RenewPermit, Repair, RepairSlots, RequestCancel, RequeueJobs,
                ReserveBudget, ReserveIdempotencyKey, ResolveApproval, Retire, RetryDeadLetter, RevokeApiKey,
                RotateApiKey, SaveBudget, SaveDocument, SaveFigures, SaveLimit, SaveSnapshot, SaveWorkflow, SendEvent,
                SendKeyedEvent, SetLimits,
                SettleChildStart, SettleHeldJob, SettlePermit, SpreadEvents, WithdrawLock
            }
        }
    };
}

macro_rules! erase {
    (() reads { $($read:ident),* } writes { $($write:ident),* }) => {
        /// A request to any verb.
        #[derive(Debug, Clone)]
        #[expect(clippy::large_enum_variant, reason = "the largest, a commit, is among the most frequent")]
        pub enum Request {
            $($read($read),)*
            $($write($write),)*
        }

        /// The answer of any verb.
        #[derive(Debug, PartialEq)]
        pub enum Answer {
            $($read(<$read as Verb>::Answer),)*
            $($write(<$write as Verb>::Answer),)*
        }

        impl Request {
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$read(_) => $read::NAME,)*
                    $(Self::$write(_) => $write::NAME,)*
                }
            }

            pub fn action(&self) -> &'static str {
                match self {
                    $(Self::$read(_) => $read::ACTION,)*
                    $(Self::$write(_) => $write::ACTION,)*
                }
            }

            pub fn writes(&self) -> bool {
                match self {
                    $(Self::$read(_) => $read::WRITES,)*
                    $(Self::$write(_) => $write::WRITES,)*
                }
            }
        }

        /// The name of every verb.
        pub const NAMES: &[&str] = &[$($read::NAME,)* $($write::NAME),*];

        /// The name of every verb that writes.
        pub const WRITE_NAMES: &[&str] = &[$($write::NAME),*];

        // The list and the declarations agree on which verbs write.
        const _: () = { $(assert!(!$read::WRITES);)* $(assert!($write::WRITES);)* };
    };
}

for_each_verb!(erase!());
