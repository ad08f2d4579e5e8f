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

/// The same, for verbs of which nothing more is to be said: their fields are the arguments, and the reply is the answer.
macro_rules! plain {
    ($($verb:ident in $home:ident $(, missing $what:literal $id:ident)?;)*) => {
        addressed! { $($verb in $home $(, missing $what $id)?;)* }
        $(impl Scripted for verbs::$verb {})*
    };
}

plain! {
    AbandonWorker in tenant;
    AcquireChildStarts in tenant;
    AcquireDeferredResults in tenant;
    AcquireHeldJobs in tenant;
    BeginTry in tenant, missing "run" run;
    CountDeadLetters in tenant;
    CountJobsBefore in tenant;
    CountRuns in tenant;
    DeleteBudget in tenant;
    DeleteDeadLetter in tenant, missing "dead letter" job;
    DeleteFigures in system;
    DeleteLimit in tenant, missing "limit" name;
    DeleteWorkflow in tenant, missing "workflow" id;
    DrainNatsWorker in system, missing "worker" worker;
    DrainWorker in tenant, missing "worker" worker;
    ExpireLeases in tenant;
    ExpirePermits in tenant;
    ExtendJobLease in tenant, missing "job" job;
    ExtendRunLease in tenant, missing "run" run;
    FireTimers in tenant;
    ForgetNatsWorker in system;
    ForgetWorker in tenant;
    ListActiveRuns in tenant;
    ListApprovals in tenant;
    ListBudgetEvents in tenant;
    ListBudgetGroups in tenant;
    ListBudgets in tenant;
    ListDeadLetters in tenant;
    ListExpiredLeases in tenant;
    ListJobs in tenant;
    ListLimits in tenant;
    ListLockHistory in lock;
    ListLocks in tenant;
    ListQueuedRuns in tenant;
    ListRuns in tenant;
    ListWorkers in tenant;
    ListWorkflows in tenant;
    MoveQueuedRun in tenant;
    ReadBudget in tenant;
    ReadDebouncedRun in tenant;
    ReadDeadLetter in tenant;
    ReadEffectiveLimits in tenant;
    ReadJob in tenant;
    ReadLimitUsage in tenant;
    ReadLock in lock;
    ReadQueuedRun in tenant;
    ReadRun in tenant;
    ReadRunOwnership in tenant;
    ReadRunStatuses in tenant;
    ReadTimeline in tenant, missing "run" run;
    ReadUsage in tenant;
    ReadWorker in tenant;
    ReadWorkflow in tenant;
    ReadWorkflowVersion in tenant;
    RegisterNatsWorker in system;
    ReleaseIdempotencyKey in tenant;
    ReleaseLock in lock;
    ReleasePermit in tenant, missing "permit" permit;
    RenewPermit in tenant, missing "permit" permit;
    RepairSlots in tenant;
    RequeueJobs in tenant;
    ReserveIdempotencyKey in tenant;
    Retire in tenant;
    RevokeApiKey in system, missing "key" id;
    SaveWorkflow in tenant;
    SendEvent in tenant, missing "run" run;
    SendKeyedEvent in tenant;
    SettlePermit in tenant, missing "permit" permit;
    SpreadEvents in tenant;
    WithdrawLock in lock;
}

// Each of these has its `impl Scripted` in the file of its noun.
addressed! {
    AcquireLock in lock;
    AcquireReadyRuns in tenant;
    AcquireRun in tenant;
    AcquireSuspect in tenant;
    AddDeadLetter in tenant;
    AdjustBudget in tenant;
    AdoptSystemLimits in tenant;
    CancelJob in tenant, missing "job" job;
    Claim in tenant;
    Commit in tenant, missing "run" run;
    CreateApiKey in system;
    DeferResult in tenant, missing "job" job;
    DeleteRun in tenant, missing "run" run;
    DeliverResult in tenant, missing "job" job;
    ForceReleaseLock in lock;
    ListSlots in tenant;
    PauseLimit in tenant, missing "limit" name;
    ReadDocument in system;
    ReadFigures in system;
    ReadLimits in scope;
    ReadRegistry in system;
    RecordBeat in system;
    RecordProgress in tenant, missing "job" job;
    RecordResult in tenant, missing "job" job;
    ReleaseRun in tenant;
    RenewLock in lock;
    RequestCancel in tenant, missing "run" run;
    ReserveBudget in tenant;
    ResolveApproval in tenant, missing "approval" job;
    RetryDeadLetter in tenant, missing "dead letter" job;
    RotateApiKey in system, missing "key" id;
    SaveBudget in tenant;
    SaveDocument in system;
    SaveFigures in system;
    SaveLimit in tenant;
    SetLimits in scope;
    SettleChildStart in tenant;
    SettleHeldJob in tenant;
}
