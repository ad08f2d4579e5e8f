//! What one instance's calls go through on their way to the store: the checker sees them, and the instance may die
//! before or after any of them.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::approvals::ApprovalStore;
use interlock_backend::dead_letters::{DeadLetterStore, LetterCount, LetterRetry};
use interlock_backend::deliveries::{
    DeliveryStore, PutOff, PutOffAnswer, PutOffResult, ReportAndTake, ReportTaken,
};
use interlock_backend::documents::{Document, DocumentName, DocumentStore};
use interlock_backend::history::HistoryStore;
use interlock_backend::holds::{HeldDue, HoldStore, Settled, Settlement, TakeHeld};
use interlock_backend::inspection::{Inspection, InspectionStore, Repair};
use interlock_backend::jobs::{Claim, Claimed, Heartbeat, JobStore, JobView, LeaseTerm, Progress, Report};
use interlock_backend::keys::{ApiKey, KeyStore};
use interlock_backend::local::LocalStore;
use interlock_backend::locks::{self, Acquire, Acquired, ForcedRelease, LockDetail, LockStore, LockView};
use interlock_backend::reconcile::{ReconcileStore, Replayed, Retire, Retired, SlotDrift};
use interlock_backend::registry::{Beat, Handshake, Registry, RegistryStore};
use interlock_backend::reservations::{Count, ReservationStore, Reserve, Reserved};
use interlock_backend::runs::{
    CancelRequest, Commit, Committed, Due, Glance, RunFilter, RunStanding, RunStore, RunSummary, Taken,
};
use interlock_backend::tenants::{LimitScope, TenantStore, WrittenLimits};
use interlock_backend::workers::{WorkerRecord, WorkerStore};
use interlock_backend::workflows::{WorkflowStore, WorkflowVersion};
use interlock_backend::{Page, PageRequest, StoreError};
use interlock_model::admission::{Admission, StartRun, Usage};
use interlock_model::approval::{Approval, Decision, Resolution};
use interlock_model::dead_letter::DeadLetter;
use interlock_model::doctor::{Finding, Mending};
use interlock_model::history::Recorded;
use interlock_model::job::{JobLease, JobOutcome, JobState};
use interlock_model::limit::{EffectiveLimits, Limits};
use interlock_model::lock::{Grant, LockEvent, LockName};
use interlock_model::run::Run;
use interlock_model::workflow::WorkflowDocument;
use interlock_model::{
    ApiKeyId, Fence, IdempotencyKey, InstanceId, JobId, LockRequest, LockToken, RolloutId, RunId, TenantId,
    Timestamp, WorkerId, WorkflowId,
};
use tokio::sync::mpsc;

use crate::checker::{Asked, Checker, Shared, Turn};
use crate::planted::PlantedTables;

/// The one store of a simulation.
pub(crate) type Store = LocalStore<PlantedTables>;

pub(crate) struct Line {
    /// Whose line it is, for the log.
    pub(crate) name: String,
    pub(crate) store: Arc<Store>,
    pub(crate) checker: Shared,
    pub(crate) fuse: Fuse,
}

/// Kills its instance at a chosen call: once before the store has it, once after.
pub(crate) struct Fuse {
    calls: AtomicU64,
    /// Counts two for each call: an odd number means after the store did it.
    blows_at: Option<u64>,
    slot: usize,
    blown: mpsc::UnboundedSender<usize>,
}

impl Fuse {
    pub(crate) fn new(blows_at: Option<u64>, slot: usize, blown: mpsc::UnboundedSender<usize>) -> Self {
        Self { calls: AtomicU64::new(0), blows_at, slot, blown }
    }

    async fn pass(&self) {
        if Some(self.calls.fetch_add(1, Ordering::Relaxed)) == self.blows_at
            && self.blown.send(self.slot).is_ok()
        {
            // Whoever was told aborts every task of this instance, this one included.
            std::future::pending::<()>().await;
        }
    }
}

impl Line {
    async fn call<R: std::fmt::Debug>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<R, StoreError>>,
        judge: impl FnOnce(&mut Checker, &Result<R, StoreError>),
    ) -> Result<R, StoreError> {
        self.fuse.pass().await;
        let answer = call.await;
        self.checker.with(|checker| {
            checker.called((&self.name, verb), &answer);
            judge(checker, &answer);
            checker.check_live();
        });
        self.fuse.pass().await;
        answer
    }
}

/// Verbs with the checker's word on each: `verb(arguments) -> answer, remembered => |checker, answer| …`.
macro_rules! watched {
    ($trait:ident {
        $($verb:ident($($name:ident: $type:ty),*) -> $answer:ty $(, $kept:ident = $keep:expr)? => $judge:expr;)*
    }) => {
        #[async_trait]
        impl $trait for Line {
            $(async fn $verb(&self, $($name: $type),*) -> Result<$answer, StoreError> {
                $(let $kept = $keep;)?
                self.call(stringify!($verb), self.store.$verb($($name),*), $judge).await
            })*
        }
    };
}

/// Everything goes over the line, where the checker sees it.
impl Glance for Line {
    fn refusal(&self, _: &StartRun) -> Option<Admission> {
        None
    }

    fn commands_sent(&self) -> u64 {
        self.store.commands_sent()
    }
}

watched!(RunStore {
    admit(start: &StartRun) -> Admission, asked = Asked::of(start) => |checker, answer| checker.admission(&asked, answer);
    take_ready(tenant: &TenantId, holder: &InstanceId, lease: Duration, limit: usize) -> Vec<Taken>
        => |checker, answer| checker.taken(answer.iter().flatten(), lease);
    take(tenant: &TenantId, run: RunId, holder: &InstanceId, lease: Duration) -> Option<Taken>
        => |checker, answer| checker.taken(answer.iter().flatten(), lease);
    commit(commit: Commit) -> Committed, turn = Turn::of(&commit) => |checker, answer| checker.committed(&turn, answer);
    keep_run(tenant: &TenantId, run: RunId, fence: Fence, lease: Duration) -> () => |checker, answer| {
        if answer.is_ok() {
            checker.kept((run, fence), lease);
        }
    };
    let_go(tenant: &TenantId, run: RunId, fence: Fence) -> () => |checker, answer| {
        if answer.is_ok() {
            checker.let_go(run, fence);
        }
    };
    request_cancel(tenant: &TenantId, run: RunId, by: &str) -> CancelRequest => |checker, answer| {
        checker.counts.cancels += u64::from(matches!(answer, Ok(CancelRequest::Posted)));
    };
    delete_run(tenant: &TenantId, run: RunId) -> Vec<JobId> => |checker, answer| {
        if answer.is_ok() {
            checker.deleted(tenant, run);
        }
    };
    ripen(tenant: &TenantId, limit: usize) -> usize => |_, _| {};
    run(tenant: &TenantId, run: RunId) -> Option<Run> => |_, _| {};
    run_standing(tenant: &TenantId, run: RunId) -> RunStanding => |_, _| {};
    runs(tenant: &TenantId, filter: &RunFilter, page: &PageRequest) -> Page<RunSummary> => |_, _| {};
    active_runs(tenant: &TenantId, limit: usize) -> Vec<RunId> => |_, _| {};
    usage(tenant: &TenantId) -> Usage => |_, _| {};
    due(limit: usize) -> Due => |_, _| {};
});

watched!(ReservationStore {
    reserve_key(reserve: &Reserve) -> Reserved => |checker, answer| checker.key_reserved(reserve, answer);
    release_key(tenant: &TenantId, workflow: &WorkflowId, key: &IdempotencyKey, run: RunId) -> bool
        => |checker, answer| checker.counts.keys_released += u64::from(matches!(answer, Ok(true)));
    count_runs(tenant: &TenantId) -> Count => |_, _| {};
});

watched!(JobStore {
    claim(claim: Claim) -> Vec<Claimed>, tenant = claim.tenant.clone() => |checker, answer| {
        checker.claimed(&tenant, answer.as_deref().unwrap_or_default());
    };
    heartbeat(tenant: &TenantId, job: &JobId, fence: Fence) -> Heartbeat
        => |checker, answer| checker.heartbeat(job, fence, answer);
    hold(tenant: &TenantId, job: &JobId, fence: Fence, term: LeaseTerm) -> Heartbeat
        => |checker, answer| checker.held((job, fence), term, answer);
    progress(tenant: &TenantId, job: &JobId, fence: Fence, progress: Progress) -> ()
        => |checker, answer| checker.progress(job, fence, answer);
    report(tenant: &TenantId, job: &JobId, fence: Fence, outcome: JobOutcome) -> Report, cause = outcome.cause()
        => |checker, answer| checker.reported((job, fence), cause, answer);
    cancel_job(tenant: &TenantId, job: &JobId, by: &str) -> JobState => |checker, answer| {
        if answer.is_ok() {
            checker.end_job(job, None);
        }
    };
    expire(tenant: &TenantId, limit: usize) -> Vec<JobId>
        => |checker, answer| checker.expired(answer.as_deref().unwrap_or_default());
    abandon(tenant: &TenantId, worker: &WorkerId, limit: usize) -> Vec<JobId> => |checker, answer| {
        answer.iter().flatten().for_each(|job| checker.end_job(job, None));
    };
    jobs_before(tenant: &TenantId, job: &JobId) -> Option<usize> => |_, _| {};
    job(tenant: &TenantId, job: &JobId) -> Option<JobView> => |_, _| {};
    jobs(tenant: &TenantId, state: Option<JobState>, page: &PageRequest) -> Page<JobView> => |_, _| {};
});

watched!(DeliveryStore {
    report_and_take(report: &ReportAndTake) -> ReportTaken => |checker, answer| checker.delivered(report, answer);
    put_off(put_off: &PutOff) -> PutOffAnswer => |checker, answer| checker.put_off(put_off, answer);
    take_put_off(tenant: &TenantId, limit: usize) -> Vec<PutOffResult>
        => |checker, answer| checker.results_due(answer.as_deref().unwrap_or_default());
});

watched!(HoldStore {
    take_held(take: &TakeHeld) -> Vec<HeldDue> => |_, _| {};
    settle_held(tenant: &TenantId, job: &JobId, settlement: &Settlement) -> Settled => |_, _| {};
});

watched!(ApprovalStore {
    resolve(tenant: &TenantId, job: &JobId, decision: Decision) -> Resolution, verdict = decision.verdict
        => |checker, answer| checker.resolved(job, verdict, answer);
    approvals(tenant: &TenantId, page: &PageRequest) -> Page<Approval> => |_, _| {};
});

watched!(DeadLetterStore {
    bury(tenant: &TenantId, letter: &DeadLetter, letters_max: u32) -> () => |checker, answer| {
        checker.counts.results_buried += u64::from(answer.is_ok());
    };
    dead_letters(tenant: &TenantId, page: &PageRequest) -> Page<DeadLetter> => |_, _| {};
    dead_letter(tenant: &TenantId, job: &JobId) -> Option<DeadLetter> => |_, _| {};
    delete_dead_letter(tenant: &TenantId, job: &JobId) -> () => |_, _| {};
    retry_dead_letter(tenant: &TenantId, job: &JobId, by: &str) -> LetterRetry => |_, _| {};
    count_dead_letters(tenant: &TenantId) -> LetterCount => |_, _| {};
});

watched!(ReconcileStore {
    leases_run_out(tenant: &TenantId, limit: usize) -> Vec<(JobId, JobLease)> => |_, _| {};
    replay(tenant: &TenantId, limit: usize) -> Replayed => |_, _| {};
    mend_slots(tenant: &TenantId, after: Option<RunId>, limit: usize) -> SlotDrift => |_, _| {};
    retire(tenant: &TenantId, retire: &Retire) -> Retired => |_, _| {};
});

watched!(DocumentStore {
    document(name: DocumentName) -> Option<Document> => |_, _| {};
    save_document(name: DocumentName, expected: u64, text: &str) -> bool => |_, _| {};
    save_figures(rollout: &RolloutId, instance: &InstanceId, figures: &str) -> () => |_, _| {};
    figures(rollout: &RolloutId) -> Vec<(InstanceId, String)> => |_, _| {};
    forget_figures(rollout: &RolloutId) -> () => |_, _| {};
});

watched!(RegistryStore {
    introduce(worker: &WorkerId, handshake: &Handshake) -> () => |_, _| {};
    beat(worker: &WorkerId, beat: &Beat) -> Option<Beat> => |_, _| {};
    drain(worker: &WorkerId, is_draining: bool) -> () => |_, _| {};
    registry() -> Registry => |_, _| {};
    save_snapshot(fence: Fence, snapshot: &str) -> () => |_, _| {};
    snapshot() -> Option<String> => |_, _| {};
    forget_worker(worker: &WorkerId, unless_after: Timestamp) -> () => |_, _| {};
});

watched!(LockStore {
    acquire(acquire: &Acquire) -> locks::Turn<Acquired> => |checker, answer| checker.lock_asked(acquire, answer);
    renew(lock: &LockName, token: &LockToken, ttl: Duration) -> locks::Turn<Grant>
        => |checker, answer| checker.lock_renewed((lock, token), answer);
    release(lock: &LockName, token: &LockToken) -> locks::Turn<()>
        => |checker, answer| checker.lock_released((lock, token), answer);
    withdraw(lock: &LockName, request: &LockRequest, call: &LockToken) -> locks::Turn<()>
        => |checker, _| checker.lock_withdrawn(lock, request, call);
    force_release(forced: &ForcedRelease) -> locks::Turn<()> => |_, _| {};
    lock(lock: &LockName) -> Option<LockDetail> => |_, _| {};
    locks(tenant: &TenantId, page: &PageRequest) -> Page<LockView> => |_, _| {};
    lock_history(lock: &LockName, page: &PageRequest) -> Page<LockEvent> => |_, _| {};
});

watched!(InspectionStore {
    inspect(inspection: &Inspection) -> Page<Finding> => |_, _| {};
    mend(repair: &Repair) -> Mending => |_, _| {};
});

watched!(HistoryStore {
    timeline(tenant: &TenantId, run: RunId, after: u64, limit: usize) -> Vec<Recorded> => |_, _| {};
});

watched!(KeyStore {
    create_key(key: ApiKey) -> ApiKey => |_, _| {};
    revoke_key(id: &ApiKeyId) -> () => |_, _| {};
    api_keys() -> Vec<ApiKey> => |_, _| {};
});

watched!(TenantStore {
    set_limits(scope: &LimitScope, limits: Limits) -> u64 => |checker, answer| {
        let tenant = match scope {
            LimitScope::System => None,
            LimitScope::Tenant(tenant) => Some(tenant),
        };
        if answer.is_ok() {
            checker.limits_set(tenant, limits);
        }
    };
    limits(scope: &LimitScope) -> WrittenLimits => |_, _| {};
    effective_limits(tenant: &TenantId) -> EffectiveLimits => |_, _| {};
    tenants(page: &PageRequest) -> Page<TenantId> => |_, _| {};
});

watched!(WorkerStore {
    workers(tenant: &TenantId, page: &PageRequest) -> Page<WorkerRecord> => |_, _| {};
    worker(tenant: &TenantId, worker: &WorkerId) -> Option<WorkerRecord> => |_, _| {};
    drain_worker(tenant: &TenantId, worker: &WorkerId, is_draining: bool) -> () => |_, _| {};
    forget_record(tenant: &TenantId, worker: &WorkerId, unless_after: Timestamp) -> () => |_, _| {};
});

watched!(WorkflowStore {
    save_workflow(tenant: &TenantId, id: &WorkflowId, document: &WorkflowDocument) -> u32 => |checker, answer| {
        if let Ok(version) = answer {
            checker.workflow_saved(tenant, id, Some(*version));
        }
    };
    workflow(tenant: &TenantId, id: &WorkflowId) -> Option<WorkflowVersion> => |_, _| {};
    workflow_version(tenant: &TenantId, id: &WorkflowId, version: u32) -> Option<WorkflowVersion> => |_, _| {};
    workflows(tenant: &TenantId, page: &PageRequest) -> Page<WorkflowVersion> => |_, _| {};
    delete_workflow(tenant: &TenantId, id: &WorkflowId) -> () => |checker, answer| {
        if answer.is_ok() {
            checker.workflow_saved(tenant, id, None);
        }
    };
});
