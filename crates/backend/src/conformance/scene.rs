//! What the rules act with: short words for the verbs, on a store that is expected to be up.

use crate::suspects::{Suspect, SuspectOutcome};
use crate::verbs::{
    AcquireRun, AcquireSuspect, Admit, BeginTry, ListActiveRuns, ReadUsage, SaveWorkflow, SetLimits,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use interlock_model::admission::{FirstTurn, IdempotentIntent, RunRequest, StartOutcome, StartPlan};
use interlock_model::approval::{Approval, ApprovalState};
use interlock_model::child::ChildEffects;
use interlock_model::dead_letter::{DeadLetter, LetterCode};
use interlock_model::dispatch_policy::{HeldJob, HoldReason};
use interlock_model::event::WaitEffects;
use interlock_model::fingerprint::Fingerprint;
use interlock_model::job::{JobOutcome, NewJob};
use interlock_model::limit::Limits;
use interlock_model::limit::document::Labels;
use interlock_model::limit::place::StartPriority;
use interlock_model::meta::JobMeta;
use interlock_model::run::{Ending, InboxEvent, RunEvent, RunStatus, StartedFrom};
use interlock_model::scheduling::Edge;
use interlock_model::workflow::{Workflow, WorkflowDocument};
use interlock_model::{InstanceId, JobId, RunId, StepKey, TenantId, Timestamp, Topic, WorkflowId};
use serde_json::{Value, json};

use super::Subject;
use crate::jobs::{Claim, Claimed, LeaseTerm};
use crate::runs::{AcquiredRun, Commit, Committed};
use crate::tenants::LimitScope;
use crate::{Store, StoreError};

/// How long leases are in the suite.
pub(super) const LEASE: Duration = Duration::from_millis(400);

/// Dead letters that a tenant may have in the suite, where a rule does not say.
pub(super) const LETTERS_MAX: u32 = 1_000;

/// A store with one workflow for each of its tenants.
pub(super) struct Scene {
    pub(super) store: Store,
    ids: AtomicU64,
}

pub(super) fn name<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().expect("names in rules are valid")
}

pub(super) fn acme() -> TenantId {
    name("acme")
}

pub(super) fn globex() -> TenantId {
    name("globex")
}

pub(super) fn deploy() -> WorkflowId {
    name("deploy")
}

pub(super) fn document() -> WorkflowDocument {
    let document = json!({"name": "deploy", "steps": {"build": {"type": "worker", "topic": "build"}}});
    serde_json::from_value(document).expect("the document is valid")
}

pub(super) fn holder() -> InstanceId {
    name("engine-1")
}

impl Scene {
    /// The store as it is.
    pub(super) fn of(subject: &dyn Subject) -> Self {
        Self { store: subject.store(), ids: AtomicU64::new(1_000_000) }
    }

    /// Two tenants with the workflow `deploy`, and `cap` slots for each.
    pub(super) async fn with_cap(subject: &dyn Subject, cap: u32) -> Self {
        let scene = Self { store: subject.store(), ids: AtomicU64::new(1) };
        for tenant in [acme(), globex()] {
            scene
                .store
                .call(SaveWorkflow { tenant: tenant.clone(), id: deploy(), document: document() })
                .await
                .expect("the store is up");
            scene.limit(&tenant, cap).await;
        }
        scene
    }

    pub(super) async fn limit(&self, tenant: &TenantId, cap: u32) {
        let limits = Limits { runs_max: Some(cap), ..Limits::default() };
        let scope = LimitScope::Tenant(tenant.clone());
        self.store
            .call(SetLimits { scope: scope.clone(), limits, keeps_quotas: false })
            .await
            .expect("the store is up");
    }

    pub(super) fn fresh_run(&self) -> RunId {
        let number = self.ids.fetch_add(1, Ordering::SeqCst);
        let mut random = [0; 10];
        random[2..].copy_from_slice(&number.to_be_bytes());
        RunId::new(Timestamp::from_millis(1_794_700_800_000 + number), random)
    }

    /// A start of `deploy`, with a key and a payload or without.
    pub(super) fn request(&self, tenant: &TenantId, key: Option<&str>, input: Value) -> Admit {
        let intent = key.map(|key| IdempotentIntent {
            key: name(key),
            fingerprint: Fingerprint::of_start(&deploy(), &input),
        });
        let request = RunRequest {
            run: self.fresh_run(),
            tenant: tenant.clone(),
            workflow: deploy(),
            input,
            intent,
            origin: StartedFrom::Request,
            labels: Labels::default(),
            priority: StartPriority::default(),
            trace: None,
        };
        let plan = StartPlan::unlimited(1);
        let (request, plan) = (Arc::new(request), Some(Arc::new(plan)));
        Admit { request, plan, admission_fence: None, is_repeat: false }
    }

    /// A start of `document`, saved as `deploy`, that brings its first turn with it.
    pub(super) async fn begun(&self, document: &WorkflowDocument, input: Value) -> Admit {
        let version = self
            .store
            .call(SaveWorkflow { tenant: acme(), id: deploy(), document: document.clone() })
            .await
            .expect("the store is up");
        let start = self.request(&acme(), None, input);
        let workflow = Workflow::compile(deploy(), version, document).expect("the document compiles");
        // Decided a moment before the store hears of it.
        let now = Timestamp::from_millis(1_794_700_799_990);
        let mut plan = StartPlan::unlimited(version);
        let first_turn = FirstTurn::of(&workflow, &start.request, &plan, now, 0);
        plan.first_turn = first_turn.expect("the rules know how a run begins");
        Admit { plan: Some(Arc::new(plan)), ..start }
    }

    pub(super) async fn admit(&self, admit: Admit) -> StartOutcome {
        self.store.call(admit).await.expect("the store is up")
    }

    pub(super) async fn start(&self, tenant: &TenantId, key: Option<&str>) -> StartOutcome {
        self.admit(self.request(tenant, key, json!({"n": 1}))).await
    }

    pub(super) async fn started(&self, tenant: &TenantId) -> RunId {
        match self.start(tenant, None).await {
            StartOutcome::Admitted { run, .. } => run,
            other => panic!("expected an admission, got {other:?}"),
        }
    }

    pub(super) async fn take(&self, tenant: &TenantId, run: RunId) -> Option<AcquiredRun> {
        self.store
            .call(AcquireRun { tenant: tenant.clone(), run, holder: holder(), lease: LEASE })
            .await
            .expect("the store is up")
    }

    pub(super) async fn taken(&self, tenant: &TenantId, run: RunId) -> AcquiredRun {
        self.take(tenant, run).await.expect("the run is free and ready")
    }

    /// A new run that a timer wakes after this time.
    pub(super) async fn timed(&self, tenant: &TenantId, after: Duration) -> RunId {
        let run = self.started(tenant).await;
        let taken = self.taken(tenant, run).await;
        let mut turn = running(&taken);
        turn.head.due_at = Some(taken.now + after);
        let _ = self.commit(turn).await.expect("the turn is in time");
        run
    }

    /// Acquires the tenant's suspect, or quarantines it after four abandoned turns.
    pub(super) async fn suspect(&self, tenant: &TenantId) -> SuspectOutcome {
        let (tenant, holder) = (tenant.clone(), holder());
        let acquire =
            AcquireSuspect { tenant, holder, lease: LEASE, tries_max: 4, dead_letters_max: LETTERS_MAX };
        self.store.call(acquire).await.expect("the store is up")
    }

    /// The tenant's suspect, acquired; its next try has begun.
    pub(super) async fn tried(&self, tenant: &TenantId) -> AcquiredRun {
        let outcome = self.suspect(tenant).await;
        let SuspectOutcome::Acquired(suspect) = outcome else {
            panic!("expected a suspect, got {outcome:?}")
        };
        let Suspect { run: acquired, tries } = *suspect;
        let (run, fence) = (acquired.start.run, acquired.fence);
        let begin = BeginTry { tenant: tenant.clone(), run, fence, lease: LEASE, number: tries + 1 };
        self.store.call(begin).await.expect("the lease is in force");
        acquired
    }

    /// Takes a new run and dispatches its one job.
    pub(super) async fn begin(&self, tenant: &TenantId, run: RunId) -> JobId {
        let turn = running(&self.taken(tenant, run).await);
        let job = turn.dispatched[0].id.clone();
        let _ = self.commit(turn).await.expect("the turn is in time");
        job
    }

    /// A run with a claimed job.
    pub(super) async fn working(&self, tenant: &TenantId) -> (RunId, Claimed) {
        let run = self.started(tenant).await;
        self.begin(tenant, run).await;
        (run, self.claim(tenant, 1).await.pop().expect("the job waits"))
    }

    pub(super) async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        self.store.call(commit).await
    }

    pub(super) async fn claim(&self, tenant: &TenantId, jobs_max: usize) -> Vec<Claimed> {
        self.store.call(claim(tenant, jobs_max)).await.expect("the store is up")
    }

    pub(super) async fn active(&self, tenant: &TenantId) -> u32 {
        let usage = self.store.call(ReadUsage { tenant: tenant.clone() }).await.expect("the store is up");
        let listed = self
            .store
            .call(ListActiveRuns { tenant: tenant.clone(), limit: 1_000 })
            .await
            .expect("the store is up")
            .len();
        assert_eq!(usage.runs_active as usize, listed, "the count and the set of active runs agree");
        usage.runs_active
    }
}

pub(super) fn claim(tenant: &TenantId, jobs_max: usize) -> Claim {
    Claim {
        tenant: tenant.clone(),
        worker: name("worker-1"),
        topics: vec![topic()],
        capabilities: Vec::new(),
        jobs_max,
        term: LeaseTerm::For(LEASE),
        edge: Edge::Http,
    }
}

/// The outcomes of jobs in the inbox of an acquired run, without their times.
pub(super) fn outcomes(taken: &AcquiredRun) -> Vec<(JobId, JobOutcome)> {
    let outcome_of = |event: &InboxEvent| match event {
        InboxEvent::Job { at, job, outcome } => {
            assert!(*at <= taken.now && *at > Timestamp::ZERO, "{at} is not when the store heard of {job}");
            (job.clone(), outcome.clone())
        }
        other => panic!("expected only outcomes of jobs, got {other:?}"),
    };
    taken.inbox.iter().map(outcome_of).collect()
}

pub(super) fn topic() -> Topic {
    name("build")
}

/// A turn that changes nothing.
pub(super) fn idle(taken: &AcquiredRun) -> Commit {
    Commit {
        tenant: taken.start.tenant.clone(),
        run: taken.start.run,
        fence: taken.fence,
        version: taken.head.version,
        head: taken.head.clone(),
        steps: Vec::new(),
        inbox_end: taken.inbox_end,
        events: Vec::new(),
        dispatched: Vec::new(),
        held: Vec::new(),
        revoked: Vec::new(),
        approvals_opened: Vec::new(),
        approvals_withdrawn: Vec::new(),
        buried: Vec::new(),
        children: ChildEffects::default(),
        waits: WaitEffects::default(),
        dead_letters_max: LETTERS_MAX,
        continues: false,
    }
}

/// A turn that begins the run and dispatches its job.
pub(super) fn running(taken: &AcquiredRun) -> Commit {
    let mut turn = idle(taken);
    if turn.head.status == RunStatus::Pending {
        turn.head.status = turn.head.status.apply(RunEvent::Start).expect("a pending run starts");
    }
    turn.dispatched = vec![new_job(taken.start.run, 1)];
    turn
}

/// A turn that ends the run and revokes its job.
pub(super) fn ending(taken: &AcquiredRun, ending: Ending) -> Commit {
    let mut turn = idle(taken);
    turn.head.status = turn.head.status.apply(RunEvent::End(ending)).expect("a live run ends");
    turn.revoked = vec![new_job(taken.start.run, 1).id];
    turn
}

pub(super) fn new_job(run: RunId, attempt: u32) -> NewJob {
    NewJob {
        id: JobId { run, step: StepKey::whole(&name("build")), attempt },
        workflow: deploy(),
        topic: topic(),
        input: json!({"n": 1}),
        deadline_at: None,
        timeout: None,
        queue_until: None,
        meta: JobMeta::default(),
        budget: None,
        trace: None,
    }
}

/// The job, held for the policy.
pub(super) fn held_job(job: NewJob) -> HeldJob {
    HeldJob { job, reason: HoldReason::PolicyPending, detail: "to be asked".to_owned() }
}

pub(super) fn approval(run: RunId, now: Timestamp) -> Approval {
    Approval {
        job: JobId { run, step: StepKey::whole(&name("gate")), attempt: 1 },
        workflow: deploy(),
        requested_at: now,
        input: json!({"what": "may I?"}),
        state: ApprovalState::Open,
        because: None,
    }
}

pub(super) fn letter(job: &JobId) -> DeadLetter {
    DeadLetter {
        job: job.clone(),
        topic: Some(topic()),
        code: LetterCode::WorkerLost,
        reason: "10 dispatches lost their worker".to_owned(),
        attempts: 10,
        last_error: Some("the lease expired".to_owned()),
        buried_at: Timestamp::from_millis(1_794_700_800_123),
        result: Some(JobOutcome::completed(json!({"kept": [1.50, {}]}))),
    }
}

/// The start with another request.
pub(super) fn with_request(mut start: Admit, change: impl FnOnce(&mut RunRequest)) -> Admit {
    change(Arc::make_mut(&mut start.request));
    start
}

/// The start as planned for another version.
pub(super) fn with_version(mut start: Admit, workflow_version: u32) -> Admit {
    start.plan = Some(Arc::new(StartPlan::unlimited(workflow_version)));
    start
}
