//! The checker's judgement of each verb. A verb that is in none of the lists here does not compile.

use interlock_backend::runs::CancelOutcome;
use interlock_backend::suspects::SuspectOutcome;
use interlock_backend::tenants::LimitScope;
use interlock_backend::{StoreError, Verb, verbs};
use interlock_model::budget::Amount;

use super::Checker;
use super::runs::Turn;

/// A verb whose answers the checker has an opinion on, or none.
pub(crate) trait Judged: Verb {
    fn judge(&self, checker: &mut Checker, answer: &Result<Self::Answer, StoreError>);
}

macro_rules! judged {
    ($($verb:ident => |$asked:ident, $checker:ident, $answer:ident| $judge:expr;)*) => {
        $(impl Judged for verbs::$verb {
            fn judge(&self, $checker: &mut Checker, $answer: &Result<Self::Answer, StoreError>) {
                let $asked = self;
                $judge;
            }
        })*
    };
}

macro_rules! not_judged {
    ($($verb:ident),* $(,)?) => {
        $(impl Judged for verbs::$verb {
            fn judge(&self, _: &mut Checker, _: &Result<Self::Answer, StoreError>) {}
        })*
    };
}

judged! {
    Admit => |asked, checker, answer| checker.admission(asked, answer);
    AcquireReadyRuns => |asked, checker, answer| {
        checker.acquired(answer.iter().flat_map(|acquired| &acquired.runs), asked.lease);
    };
    AcquireRun => |asked, checker, answer| checker.acquired(answer.iter().flatten(), asked.lease);
    AcquireSuspect => |asked, checker, answer| match answer {
        Ok(SuspectOutcome::Acquired(suspect)) => checker.acquired([&suspect.run], asked.lease),
        Ok(SuspectOutcome::Quarantined(run)) => checker.quarantined(&asked.tenant, *run),
        Ok(SuspectOutcome::Nothing) | Err(_) => {}
    };
    Commit => |asked, checker, answer| checker.committed(&Turn::of(asked), answer);
    BeginTry => |asked, checker, answer| if answer.is_ok() {
        checker.run_lease_extended((asked.run, asked.fence), asked.lease);
    };
    ExtendRunLease => |asked, checker, answer| if answer.is_ok() {
        checker.run_lease_extended((asked.run, asked.fence), asked.lease);
    };
    ReleaseRun => |asked, checker, answer| if answer.is_ok() {
        checker.run_released(asked.run, asked.fence);
    };
    RequestCancel => |_asked, checker, answer| {
        checker.counts.cancels += u64::from(matches!(answer, Ok(CancelOutcome::Posted)));
    };
    DeleteRun => |asked, checker, answer| if answer.is_ok() {
        checker.deleted(&asked.tenant, asked.run);
    };

    ReserveIdempotencyKey => |asked, checker, answer| checker.key_reserved(asked, answer);
    ReleaseIdempotencyKey => |_asked, checker, answer| {
        checker.counts.keys_released += u64::from(matches!(answer, Ok(true)));
    };

    SendEvent => |asked, checker, answer| checker.event_sent(asked, answer);
    SendKeyedEvent => |asked, checker, answer| checker.keyed_event_sent(asked, answer);
    SettleChildStart => |asked, checker, answer| checker.child_settled(asked, answer);

    Claim => |asked, checker, answer| checker.claimed(&asked.tenant, answer.as_deref().unwrap_or_default());
    ExtendJobLease => |asked, checker, answer| {
        checker.job_lease_extended((&asked.job, asked.fence), asked.term, answer);
    };
    RecordProgress => |asked, checker, answer| checker.progress(&asked.job, asked.fence, answer);
    RecordResult => |asked, checker, answer| {
        checker.reported((&asked.job, asked.fence), asked.outcome.cause(), answer);
    };
    CancelJob => |asked, checker, answer| if answer.is_ok() {
        checker.end_job(&asked.job, None);
    };
    ExpireLeases => |_asked, checker, answer| checker.expired(answer.as_deref().unwrap_or_default());
    AbandonWorker => |_asked, checker, answer| {
        answer.iter().flatten().for_each(|job| checker.end_job(job, None));
    };

    DeliverResult => |asked, checker, answer| checker.delivered(asked, answer);
    DeferResult => |asked, checker, answer| checker.deferred(asked, answer);
    AcquireDeferredResults => |_asked, checker, answer| {
        checker.results_due(answer.as_deref().unwrap_or_default());
    };
    ResolveApproval => |asked, checker, answer| checker.resolved(&asked.job, asked.decision.verdict, answer);
    AddDeadLetter => |_asked, checker, answer| checker.counts.results_buried += u64::from(answer.is_ok());

    AcquireLock => |asked, checker, answer| checker.lock_asked(asked, answer);
    RenewLock => |asked, checker, answer| checker.lock_renewed((&asked.lock, &asked.token), answer);
    ReleaseLock => |asked, checker, answer| checker.lock_released((&asked.lock, &asked.token), answer);
    WithdrawLock => |asked, checker, _answer| {
        checker.lock_withdrawn(&asked.lock, &asked.request, &asked.call);
    };

    SettleHeldJob => |asked, checker, answer| checker.job_settled(asked, answer);
    SaveBudget => |asked, checker, answer| if answer.is_ok() {
        checker.budget_saved(asked);
    };
    ReserveBudget => |asked, checker, answer| checker.reserved(asked, answer);
    SettlePermit => |asked, checker, answer| {
        checker.permit_ended((&asked.tenant, &asked.name), asked.amount, answer);
    };
    ReleasePermit => |asked, checker, answer| {
        checker.permit_ended((&asked.tenant, &asked.name), Amount::ZERO, answer);
    };

    SetLimits => |asked, checker, answer| {
        let tenant = match &asked.scope {
            LimitScope::System => None,
            LimitScope::Tenant(tenant) => Some(tenant),
        };
        if answer.is_ok() {
            checker.limits_set(tenant, asked.limits);
        }
    };
    SaveWorkflow => |asked, checker, answer| if let Ok(version) = answer {
        checker.workflow_saved(&asked.tenant, &asked.id, Some(*version));
    };
    DeleteWorkflow => |asked, checker, answer| if answer.is_ok() {
        checker.workflow_saved(&asked.tenant, &asked.id, None);
    };
}

// What they write is still seen, row by row.
not_judged! {
    AcquireChildStarts, AcquireHeldJobs, AdjustBudget, AdoptSystemLimits, CreateApiKey, DeleteBudget, DeleteDeadLetter,
    DeleteFigures, DeleteLimit,
    DrainNatsWorker, DrainWorker, ExpirePermits, FireTimers, ForceReleaseLock, ForgetNatsWorker, ForgetWorker,
    MoveQueuedRun, PauseLimit, RecordBeat, RegisterNatsWorker, RenewPermit, Repair, RepairSlots, RequeueJobs,
    Retire, RetryDeadLetter, RevokeApiKey, RotateApiKey, SaveDocument, SaveFigures, SaveLimit, SaveSnapshot,
    SpreadEvents,
}

// Reads. The checks of rows cover what they show.
not_judged! {
    CountDeadLetters, CountJobsBefore, CountRuns, FindDue, Inspect, InspectUnlisted, ListActiveRuns, ListApiKeys,
    ListApprovals, ListBudgetEvents, ListBudgetGroups, ListBudgets, ListDeadLetters, ListExpiredLeases, ListJobs,
    ListLimits, ListLockHistory, ListLocks, ListQueuedRuns, ListRuns, ListSlots, ListTenants, ListWorkers,
    ListWorkflows, ReadBudget, ReadDeadLetter, ReadDocument, ReadEffectiveLimits, ReadFigures, ReadJob,
    ReadDebouncedRun, ReadLimitUsage, ReadLimits, ReadLock, ReadQueuedRun, ReadRegistry, ReadRun, ReadRunOwnership,
    ReadRunStatuses, ReadSnapshot,
    ReadTimeline, ReadUsage, ReadWorker, ReadWorkflow, ReadWorkflowVersion,
}
