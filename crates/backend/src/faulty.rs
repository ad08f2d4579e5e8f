//! Fault injection: a store that loses requests and replies and takes its time, the same way for the same seed.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
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
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::approvals::ApprovalStore;
use crate::dead_letters::{DeadLetterStore, LetterCount, LetterRetry};
use crate::deliveries::{DeliveryStore, PutOff, PutOffAnswer, PutOffResult, ReportAndTake, ReportTaken};
use crate::documents::{Document, DocumentName, DocumentStore};
use crate::history::HistoryStore;
use crate::holds::{HeldDue, HoldStore, Settled, Settlement, TakeHeld};
use crate::inspection::{Inspection, InspectionStore, Repair};
use crate::jobs::{Claim, Claimed, Heartbeat, JobStore, JobView, LeaseTerm, Progress, Report};
use crate::keys::{ApiKey, KeyStore};
use crate::locks::{Acquire, Acquired, ForcedRelease, LockDetail, LockStore, LockView, Turn};
use crate::reconcile::{ReconcileStore, Replayed, Retire, Retired, SlotDrift};
use crate::registry::{Beat, Handshake, Registry, RegistryStore};
use crate::reservations::{Count, ReservationStore, Reserve, Reserved};
use crate::runs::{
    CancelRequest, Commit, Committed, Due, Glance, RunFilter, RunStanding, RunStore, RunSummary, Taken,
};
use crate::tenants::{LimitScope, TenantStore, WrittenLimits};
use crate::workers::{WorkerRecord, WorkerStore};
use crate::workflows::{WorkflowStore, WorkflowVersion};
use crate::{Effect, Page, PageRequest, Store, StoreError};

/// How often things go wrong, in calls of a thousand.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// The call never reaches the store.
    pub requests_lost: u32,
    /// The call is done, and its answer never arrives.
    pub replies_lost: u32,
    /// The call waits before it reaches the store, and its answer again, up to [`delay_max`](Self::delay_max) each.
    pub delayed: u32,
    pub delay_max: Duration,
}

impl Faults {
    pub const NONE: Self = Self { requests_lost: 0, replies_lost: 0, delayed: 0, delay_max: Duration::ZERO };
}

/// How many times as long as other calls one that cannot be taken back may be on its way.
const HELD_UP: u32 = 8;

/// A store behind a bad line.
pub struct FaultyStore {
    store: Arc<dyn Store>,
    random: Mutex<ChaCha8Rng>,
    faults: Mutex<Faults>,
}

/// What happens to one call.
struct Fate {
    before: Option<Duration>,
    loss: Option<Loss>,
    after: Option<Duration>,
}

enum Loss {
    Request(Effect),
    Reply,
}

impl FaultyStore {
    #[must_use]
    pub fn new(store: Arc<dyn Store>, seed: u64, faults: Faults) -> Self {
        let random = Mutex::new(ChaCha8Rng::seed_from_u64(seed));
        Self { store, random, faults: Mutex::new(faults) }
    }

    /// From now on things go wrong this often.
    pub fn set_faults(&self, faults: Faults) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    fn fate(&self) -> Fate {
        let faults = *self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let mut happens = |per_thousand: u32| random.random_range(0..1_000) < per_thousand;
        let (before, after) = (happens(faults.delayed), happens(faults.delayed));
        let (request, reply, is_known) =
            (happens(faults.requests_lost), happens(faults.replies_lost), happens(500));
        let mut wait =
            |delayed: bool| delayed.then(|| random.random_range(Duration::ZERO..=faults.delay_max));
        let loss = match (request, reply) {
            // A client sometimes knows that its request never left, and mostly does not.
            (true, _) => Some(Loss::Request(if is_known { Effect::NotDone } else { Effect::Unknown })),
            (false, true) => Some(Loss::Reply),
            (false, false) => None,
        };
        Fate { before: wait(before), loss, after: wait(after) }
    }

    async fn call<R>(
        &self,
        action: &'static str,
        call: impl Future<Output = Result<R, StoreError>>,
    ) -> Result<R, StoreError> {
        self.fate().befall(action, call).await
    }

    /// The same for a call that cannot be taken back: once it was made it arrives, even if nobody waits for its answer
    /// any more. It may be held up for longer, as by a process that stands still after its last look at the clock.
    async fn send<R: Send + 'static>(
        &self,
        action: &'static str,
        call: impl Future<Output = Result<R, StoreError>> + Send + 'static,
    ) -> Result<R, StoreError> {
        let fate = self.fate();
        let fate = Fate { before: fate.before.map(|wait| wait * HELD_UP), ..fate };
        let sent = tokio::spawn(fate.befall(action, call));
        sent.await.unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()))
    }
}

impl Fate {
    async fn befall<R>(
        self,
        action: &'static str,
        call: impl Future<Output = Result<R, StoreError>>,
    ) -> Result<R, StoreError> {
        let unavailable =
            |effect, reason: &str| Err(StoreError::Unavailable { action, effect, reason: reason.to_owned() });
        if let Some(wait) = self.before {
            tokio::time::sleep(wait).await;
        }
        if let Some(Loss::Request(effect)) = self.loss {
            return unavailable(effect, "the request was lost");
        }
        let answer = call.await;
        if let Some(wait) = self.after {
            tokio::time::sleep(wait).await;
        }
        if let Some(Loss::Reply) = self.loss {
            return unavailable(Effect::Unknown, "the reply was lost");
        }
        answer
    }
}

macro_rules! pass_on {
    ($trait:ident {
        $(=> $sent:ident($given:ident: $what:ty) -> $told:ty;)?
        $($verb:ident($($name:ident: $type:ty),*) -> $answer:ty;)*
    }) => {
        #[async_trait]
        impl $trait for FaultyStore {
            $(async fn $sent(&self, $given: $what) -> Result<$told, StoreError> {
                let store = self.store.clone();
                self.send(stringify!($sent), async move { store.$sent($given).await }).await
            })?
            $(async fn $verb(&self, $($name: $type),*) -> Result<$answer, StoreError> {
                self.call(stringify!($verb), self.store.$verb($($name),*)).await
            })*
        }
    };
}

/// Behind a bad line nothing is certain at once.
impl Glance for FaultyStore {
    fn refusal(&self, _: &StartRun) -> Option<Admission> {
        None
    }

    fn commands_sent(&self) -> u64 {
        self.store.commands_sent()
    }
}

pass_on!(RunStore {
    => commit(commit: Commit) -> Committed;
    admit(start: &StartRun) -> Admission;
    take_ready(tenant: &TenantId, holder: &InstanceId, lease: Duration, limit: usize) -> Vec<Taken>;
    take(tenant: &TenantId, run: RunId, holder: &InstanceId, lease: Duration) -> Option<Taken>;
    keep_run(tenant: &TenantId, run: RunId, fence: Fence, lease: Duration) -> ();
    let_go(tenant: &TenantId, run: RunId, fence: Fence) -> ();
    request_cancel(tenant: &TenantId, run: RunId, by: &str) -> CancelRequest;
    delete_run(tenant: &TenantId, run: RunId) -> Vec<JobId>;
    ripen(tenant: &TenantId, limit: usize) -> usize;
    run(tenant: &TenantId, run: RunId) -> Option<Run>;
    run_standing(tenant: &TenantId, run: RunId) -> RunStanding;
    runs(tenant: &TenantId, filter: &RunFilter, page: &PageRequest) -> Page<RunSummary>;
    active_runs(tenant: &TenantId, limit: usize) -> Vec<RunId>;
    usage(tenant: &TenantId) -> Usage;
    due(limit: usize) -> Due;
});

pass_on!(ReservationStore {
    reserve_key(reserve: &Reserve) -> Reserved;
    release_key(tenant: &TenantId, workflow: &WorkflowId, key: &IdempotencyKey, run: RunId) -> bool;
    count_runs(tenant: &TenantId) -> Count;
});

pass_on!(JobStore {
    claim(claim: Claim) -> Vec<Claimed>;
    heartbeat(tenant: &TenantId, job: &JobId, fence: Fence) -> Heartbeat;
    hold(tenant: &TenantId, job: &JobId, fence: Fence, term: LeaseTerm) -> Heartbeat;
    progress(tenant: &TenantId, job: &JobId, fence: Fence, progress: Progress) -> ();
    report(tenant: &TenantId, job: &JobId, fence: Fence, outcome: JobOutcome) -> Report;
    cancel_job(tenant: &TenantId, job: &JobId, by: &str) -> JobState;
    expire(tenant: &TenantId, limit: usize) -> Vec<JobId>;
    abandon(tenant: &TenantId, worker: &WorkerId, limit: usize) -> Vec<JobId>;
    jobs_before(tenant: &TenantId, job: &JobId) -> Option<usize>;
    job(tenant: &TenantId, job: &JobId) -> Option<JobView>;
    jobs(tenant: &TenantId, state: Option<JobState>, page: &PageRequest) -> Page<JobView>;
});

pass_on!(DeliveryStore {
    report_and_take(report: &ReportAndTake) -> ReportTaken;
    put_off(put_off: &PutOff) -> PutOffAnswer;
    take_put_off(tenant: &TenantId, limit: usize) -> Vec<PutOffResult>;
});

pass_on!(HoldStore {
    take_held(take: &TakeHeld) -> Vec<HeldDue>;
    settle_held(tenant: &TenantId, job: &JobId, settlement: &Settlement) -> Settled;
});

pass_on!(ApprovalStore {
    resolve(tenant: &TenantId, job: &JobId, decision: Decision) -> Resolution;
    approvals(tenant: &TenantId, page: &PageRequest) -> Page<Approval>;
});

pass_on!(DeadLetterStore {
    bury(tenant: &TenantId, letter: &DeadLetter, letters_max: u32) -> ();
    dead_letters(tenant: &TenantId, page: &PageRequest) -> Page<DeadLetter>;
    dead_letter(tenant: &TenantId, job: &JobId) -> Option<DeadLetter>;
    delete_dead_letter(tenant: &TenantId, job: &JobId) -> ();
    retry_dead_letter(tenant: &TenantId, job: &JobId, by: &str) -> LetterRetry;
    count_dead_letters(tenant: &TenantId) -> LetterCount;
});

pass_on!(ReconcileStore {
    leases_run_out(tenant: &TenantId, limit: usize) -> Vec<(JobId, JobLease)>;
    replay(tenant: &TenantId, limit: usize) -> Replayed;
    mend_slots(tenant: &TenantId, after: Option<RunId>, limit: usize) -> SlotDrift;
    retire(tenant: &TenantId, retire: &Retire) -> Retired;
});

pass_on!(DocumentStore {
    document(name: DocumentName) -> Option<Document>;
    save_document(name: DocumentName, expected: u64, text: &str) -> bool;
    save_figures(rollout: &RolloutId, instance: &InstanceId, figures: &str) -> ();
    figures(rollout: &RolloutId) -> Vec<(InstanceId, String)>;
    forget_figures(rollout: &RolloutId) -> ();
});

pass_on!(RegistryStore {
    introduce(worker: &WorkerId, handshake: &Handshake) -> ();
    beat(worker: &WorkerId, beat: &Beat) -> Option<Beat>;
    drain(worker: &WorkerId, is_draining: bool) -> ();
    registry() -> Registry;
    save_snapshot(fence: Fence, snapshot: &str) -> ();
    snapshot() -> Option<String>;
    forget_worker(worker: &WorkerId, unless_after: Timestamp) -> ();
});

pass_on!(LockStore {
    acquire(acquire: &Acquire) -> Turn<Acquired>;
    renew(lock: &LockName, token: &LockToken, ttl: Duration) -> Turn<Grant>;
    release(lock: &LockName, token: &LockToken) -> Turn<()>;
    withdraw(lock: &LockName, request: &LockRequest, call: &LockToken) -> Turn<()>;
    force_release(forced: &ForcedRelease) -> Turn<()>;
    lock(lock: &LockName) -> Option<LockDetail>;
    locks(tenant: &TenantId, page: &PageRequest) -> Page<LockView>;
    lock_history(lock: &LockName, page: &PageRequest) -> Page<LockEvent>;
});

pass_on!(InspectionStore {
    inspect(inspection: &Inspection) -> Page<Finding>;
    mend(repair: &Repair) -> Mending;
});

pass_on!(HistoryStore {
    timeline(tenant: &TenantId, run: RunId, after: u64, limit: usize) -> Vec<Recorded>;
});

pass_on!(KeyStore {
    create_key(key: ApiKey) -> ApiKey;
    revoke_key(id: &ApiKeyId) -> ();
    api_keys() -> Vec<ApiKey>;
});

pass_on!(TenantStore {
    set_limits(scope: &LimitScope, limits: Limits) -> u64;
    limits(scope: &LimitScope) -> WrittenLimits;
    effective_limits(tenant: &TenantId) -> EffectiveLimits;
    tenants(page: &PageRequest) -> Page<TenantId>;
});

pass_on!(WorkerStore {
    workers(tenant: &TenantId, page: &PageRequest) -> Page<WorkerRecord>;
    worker(tenant: &TenantId, worker: &WorkerId) -> Option<WorkerRecord>;
    drain_worker(tenant: &TenantId, worker: &WorkerId, is_draining: bool) -> ();
    forget_record(tenant: &TenantId, worker: &WorkerId, unless_after: Timestamp) -> ();
});

pass_on!(WorkflowStore {
    save_workflow(tenant: &TenantId, id: &WorkflowId, document: &WorkflowDocument) -> u32;
    workflow(tenant: &TenantId, id: &WorkflowId) -> Option<WorkflowVersion>;
    workflow_version(tenant: &TenantId, id: &WorkflowId, version: u32) -> Option<WorkflowVersion>;
    workflows(tenant: &TenantId, page: &PageRequest) -> Page<WorkflowVersion>;
    delete_workflow(tenant: &TenantId, id: &WorkflowId) -> ();
});
