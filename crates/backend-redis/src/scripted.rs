//! Verbs that one call of their script carries out.

use interlock_backend::verbs;

use crate::script::{Home, Missing};
use crate::store::{Addressed, Scripted};

macro_rules! home {
    ($verb:ident, system) => {
        Home::System
    };
    ($verb:ident, $field:ident) => {
        Home::from(&$verb.$field)
    };
}

/// Each verb with the field that says whose keys its script touches (or `system`), and, where the script may find
/// something missing, what that is and the field with its id.
macro_rules! addressed {
    ($($verb:ident in $home:ident $(, missing $what:literal $id:ident)?;)*) => {
        $(impl Addressed for verbs::$verb {
            fn home(&self) -> Home {
                home!(self, $home)
            }

            $(fn missing(&self) -> Missing {
                Some(($what, self.$id.to_string()))
            })?
        })*
    };
}

addressed! {
    AbandonWorker in tenant;
    AcquireDeferredResults in tenant;
    AcquireHeldJobs in tenant;
    AcquireLock in lock;
    AcquireReadyRuns in tenant;
    AcquireRun in tenant;
    AddDeadLetter in tenant;
    CancelJob in tenant, missing "job" job;
    Claim in tenant;
    Commit in tenant, missing "run" run;
    CountDeadLetters in tenant;
    CountJobsBefore in tenant;
    CountRuns in tenant;
    CreateApiKey in system;
    DeferResult in tenant, missing "job" job;
    DeleteDeadLetter in tenant, missing "dead letter" job;
    DeleteFigures in system;
    DeleteRun in tenant, missing "run" run;
    DeleteWorkflow in tenant, missing "workflow" id;
    DeliverResult in tenant, missing "job" job;
    DrainNatsWorker in system, missing "worker" worker;
    DrainWorker in tenant, missing "worker" worker;
    ExpireLeases in tenant;
    ExtendJobLease in tenant, missing "job" job;
    ExtendRunLease in tenant, missing "run" run;
    FireTimers in tenant;
    ForceReleaseLock in lock;
    ForgetNatsWorker in system;
    ForgetWorker in tenant;
    ListActiveRuns in tenant;
    ListApiKeys in system;
    ListApprovals in tenant;
    ListDeadLetters in tenant;
    ListExpiredLeases in tenant;
    ListJobs in tenant;
    ListLockHistory in lock;
    ListLocks in tenant;
    ListRuns in tenant;
    ListWorkers in tenant;
    ListWorkflows in tenant;
    ReadDeadLetter in tenant;
    ReadDocument in system;
    ReadEffectiveLimits in tenant;
    ReadFigures in system;
    ReadJob in tenant;
    ReadLimits in scope;
    ReadLock in lock;
    ReadRegistry in system;
    ReadRun in tenant;
    ReadRunOwnership in tenant;
    ReadTimeline in tenant, missing "run" run;
    ReadUsage in tenant;
    ReadWorker in tenant;
    ReadWorkflow in tenant;
    ReadWorkflowVersion in tenant;
    RecordBeat in system;
    RecordProgress in tenant, missing "job" job;
    RecordResult in tenant, missing "job" job;
    RegisterNatsWorker in system;
    ReleaseIdempotencyKey in tenant;
    ReleaseLock in lock;
    ReleaseRun in tenant;
    RenewLock in lock;
    RepairSlots in tenant;
    RequestCancel in tenant, missing "run" run;
    RequeueJobs in tenant;
    ReserveIdempotencyKey in tenant;
    ResolveApproval in tenant, missing "approval" job;
    Retire in tenant;
    RetryDeadLetter in tenant, missing "dead letter" job;
    RevokeApiKey in system, missing "key" id;
    SaveDocument in system;
    SaveFigures in system;
    SaveWorkflow in tenant;
    SetLimits in scope;
    SettleHeldJob in tenant;
    WithdrawLock in lock;
}

macro_rules! plain {
    ($($verb:ident),*) => {
        $(impl Scripted for verbs::$verb {})*
    };
}

// Those of which nothing more is to be said.
plain! {
    AbandonWorker, AcquireDeferredResults, AcquireHeldJobs, CountDeadLetters, CountJobsBefore, CountRuns,
    DeferResult, DeleteDeadLetter, DeleteFigures, DeleteWorkflow, DrainNatsWorker, DrainWorker,
    ExpireLeases, ExtendJobLease, ExtendRunLease, FireTimers, ForgetNatsWorker, ForgetWorker,
    ListActiveRuns, ListApprovals, ListDeadLetters, ListExpiredLeases, ListJobs, ListLockHistory, ListLocks,
    ListRuns, ListWorkers, ListWorkflows, ReadDeadLetter, ReadEffectiveLimits, ReadJob, ReadLimits,
    ReadLock, ReadRun, ReadRunOwnership, ReadTimeline, ReadUsage, ReadWorker, ReadWorkflow,
    ReadWorkflowVersion, RecordResult, RegisterNatsWorker, ReleaseIdempotencyKey, ReleaseLock, RepairSlots,
    RequeueJobs, ReserveIdempotencyKey, Retire, RevokeApiKey, SaveWorkflow, WithdrawLock
}
