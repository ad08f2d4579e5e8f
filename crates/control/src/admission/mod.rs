//! Decides which runs may start.

mod rerun;
mod retry_after;

use std::sync::Arc;

use async_trait::async_trait;
use interlock_backend::verbs::{Admit, ReadRun};
use interlock_backend::{Effect, StoreError, Wake};
use interlock_model::admission::{FirstTurn, IdempotentIntent, RunRequest, StartOutcome, StartPlan};
use interlock_model::fingerprint::Fingerprint;
use interlock_model::limit::document::Labels;
use interlock_model::limit::group::{Fullness, Quiet};
use interlock_model::limit::place::StartPriority;
use interlock_model::limit::rule::{NoGroup, StartFacts, claims, fair_claims};
use interlock_model::run::{Run, StartedFrom};
use interlock_model::trace::TraceParent;
use interlock_model::workflow::Workflow;
use interlock_model::{Fence, IdempotencyKey, RunId, StepId, TenantId, WorkflowId};
use serde_json::Value;
use tokio::time::Instant;

use crate::definitions::Definitions;
use crate::journal;
use crate::limit_books::{CompiledBook, LimitBooks};
use crate::process::Process;

/// A client that wants a run.
#[derive(Debug, Clone)]
pub struct StartRequest {
    pub tenant: TenantId,
    pub workflow: WorkflowId,
    pub input: Value,
    pub key: Option<IdempotencyKey>,
    pub labels: Labels,
    pub priority: StartPriority,
    /// The client's span, if it sent one.
    pub parent_span: Option<TraceParent>,
}

impl StartRequest {
    /// A start with nothing but an input.
    pub fn new(tenant: TenantId, workflow: WorkflowId, input: Value) -> Self {
        let (labels, priority) = (Labels::new(), StartPriority::default());
        Self { tenant, workflow, input, key: None, labels, priority, parent_span: None }
    }
}

/// A client that wants an ended run again.
#[derive(Debug, Clone)]
pub struct RerunRequest {
    pub tenant: TenantId,
    pub run: RunId,
    /// Take over what this step depends on, instead of running all again.
    pub from_step: Option<StepId>,
    pub key: Option<IdempotencyKey>,
    /// The client's span, if it sent one.
    pub parent_span: Option<TraceParent>,
}

/// Why a start was not decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    #[error("there is no workflow {0}")]
    WorkflowNotFound(WorkflowId),
    #[error("there is no run {0}")]
    RunNotFound(RunId),
    #[error("the input does not match the workflow's input_schema: {0}")]
    InvalidInput(String),
    /// A limit cannot tell in which group the start counts.
    #[error(transparent)]
    NoGroup(NoGroup),
    #[error("the workflow has no step {0}")]
    UnknownStep(StepId),
    #[error("{0}")]
    NotRerunnable(String),
    /// Others had the tenant's admission lock for too long, or this start lost it.
    #[error("the tenant's admission lock was not available in time ({because}); nothing was started")]
    LockBusy { because: String },
    /// The store did not do it.
    #[error("the store did not answer in time; nothing was started")]
    NotDone,
    /// The store has no room for it.
    #[error("the storage is full; nothing was started")]
    StorageFull,
    /// The store may have done it.
    #[error("the store's answer was lost; the run may or may not have started")]
    Unknown,
    #[error(transparent)]
    Store(StoreError),
}

impl StartError {
    pub(crate) fn lock_lost() -> Self {
        Self::LockBusy { because: "it was lost on the way".to_owned() }
    }
}

/// A strategy that lets one start of a tenant at a time be created.
#[async_trait]
pub trait AdmitUnderLock: Send + Sync {
    /// Waits until the start may be created, or answers it. What cannot begin is never answered with a full tenant.
    async fn enter(&self, request: &RunRequest, can_begin: bool) -> Result<Entry, StartError>;
}

/// What became of waiting for the lock.
pub enum Entry {
    Answered(StartOutcome),
    Entered(Box<dyn Passage>),
}

/// A start's time under the lock. Dropped, it ends as if its client had gone.
pub trait Passage: Send {
    fn fence(&self) -> Fence;

    /// Ends it with the decision about the start.
    fn close(self: Box<Self>, decided: &Result<StartOutcome, StartError>);
}

/// The run that a rerun repeats, and the step from which.
type RerunSource<'a> = (&'a Run, &'a StepId);

/// How often a definition may change under one start before it gives up.
const RELOADS_MAX: u32 = 5;

/// Decides starts and reruns. By default one step of the store decides, and nothing is waited for.
pub struct Admission {
    pub(crate) process: Arc<Process>,
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) limit_books: Arc<LimitBooks>,
    pub(crate) under_lock: Option<Arc<dyn AdmitUnderLock>>,
}

impl Admission {
    pub async fn start(&self, request: StartRequest) -> Result<StartOutcome, StartError> {
        let StartRequest { tenant, workflow, input, key, labels, priority, parent_span } = request;
        let fingerprint = || Fingerprint::of_start(&workflow, &input);
        let intent = key.map(|key| IdempotentIntent { fingerprint: fingerprint(), key });
        let (run, origin) = (self.fresh_run(), StartedFrom::Request);
        let trace = self.process.traces.parent(parent_span);
        let request = RunRequest { run, tenant, workflow, input, intent, origin, labels, priority, trace };
        self.admit(request, None).await
    }

    pub async fn rerun(&self, request: RerunRequest) -> Result<StartOutcome, StartError> {
        let RerunRequest { tenant, run, from_step, key, parent_span } = request;
        let found = self.process.call(ReadRun { tenant: tenant.clone(), run }).await;
        let source = found.map_err(StartError::Store)?.ok_or(StartError::RunNotFound(run))?;
        if !source.head.status.is_final() {
            return Err(StartError::NotRerunnable(format!("run {run} has not ended yet")));
        }
        let fingerprint = || Fingerprint::of_rerun(run, from_step.as_ref());
        let intent = key.map(|key| IdempotentIntent { fingerprint: fingerprint(), key });
        let origin = StartedFrom::Rerun { of: run, from_step: from_step.clone() };
        let request = RunRequest {
            run: self.fresh_run(),
            tenant,
            workflow: source.start.workflow.clone(),
            input: source.start.input.clone(),
            intent,
            origin,
            labels: source.start.labels.clone(),
            priority: source.start.priority,
            trace: self.process.traces.parent(parent_span),
        };
        self.admit(request, from_step.as_ref().map(|step| (&source, step))).await
    }

    fn fresh_run(&self) -> RunId {
        self.process.identity.run_id(self.process.now())
    }

    async fn admit(
        &self,
        request: RunRequest,
        source: Option<RerunSource<'_>>,
    ) -> Result<StartOutcome, StartError> {
        let began = Instant::now();
        let request = Arc::new(request);
        let mut admit = Admit { request, plan: None, admission_fence: None, is_repeat: false };
        let mut passage = None;
        let decided = self.decide(&mut admit, source, &mut passage).await;
        if let Some(passage) = passage {
            passage.close(&decided);
        }
        match &decided {
            Ok(decided) => {
                journal::decided(&admit.request, decided);
                self.process.traces.decided(&admit, decided, began.elapsed());
                self.announce(&admit, decided);
            }
            Err(error) => journal::undecided(&admit.request, error),
        }
        decided
    }

    /// Asks the store with the current definition, again if it has changed meanwhile.
    async fn decide(
        &self,
        admit: &mut Admit,
        source: Option<RerunSource<'_>>,
        passage: &mut Option<Box<dyn Passage>>,
    ) -> Result<StartOutcome, StartError> {
        let request = admit.request.clone();
        let found = self.definitions.current(&request.tenant, &request.workflow).await;
        let mut workflow = found.map_err(StartError::Store)?;
        let mut book = match workflow {
            Some(_) => self.limit_books.current(&request.tenant).await.map_err(StartError::Store)?,
            // Nothing is written of a tenant for a start that is refused anyway.
            None => Arc::default(),
        };
        let (mut reloads, mut is_fresh) = (0, false);
        loop {
            let mut planned = plan(&request, workflow.as_deref(), source, &book);
            if !is_fresh && matches!(planned, Err(StartError::NoGroup(_))) {
                // The store is only asked about starts that have their groups. By now it may have another limit.
                is_fresh = true;
                book = self.limit_books.reload(&request.tenant).await.map_err(StartError::Store)?;
                planned = plan(&request, workflow.as_deref(), source, &book);
            }
            let refusal = match planned {
                Ok(plan) => {
                    admit.plan = Some(Arc::new(plan));
                    None
                }
                Err(refusal) if request.intent.is_none() => return Err(refusal),
                // A retry of a start that worked is answered even if it would not pass today.
                Err(refusal) => {
                    admit.plan = None;
                    Some(refusal)
                }
            };
            let decided = match self.enter(admit, passage).await? {
                Some(answer) => answer,
                None => self.create(admit, workflow.as_deref()).await?,
            };
            match (&decided, refusal) {
                (StartOutcome::DefinitionChanged { .. }, Some(refusal)) => return Err(refusal),
                (StartOutcome::DefinitionChanged { .. }, None) if reloads < RELOADS_MAX => {
                    reloads += 1;
                    // A try that got no answer may have been admitted, or be admitted yet.
                    admit.is_repeat = true;
                    let found = self.definitions.reload(&request.tenant, &request.workflow).await;
                    workflow = found.map_err(StartError::Store)?;
                }
                (StartOutcome::LimitsChanged { .. }, None) if reloads < RELOADS_MAX => {
                    reloads += 1;
                    admit.is_repeat = true;
                    book = self.limit_books.reload(&request.tenant).await.map_err(StartError::Store)?;
                }
                _ => return Ok(decided),
            }
        }
    }

    /// An answer, if there is nothing left to create.
    async fn enter(
        &self,
        admit: &mut Admit,
        passage: &mut Option<Box<dyn Passage>>,
    ) -> Result<Option<StartOutcome>, StartError> {
        let Some(under_lock) = &self.under_lock else {
            return Ok(self.process.store.refusal(admit));
        };
        if passage.is_some() {
            return Ok(None);
        }
        match under_lock.enter(&admit.request, admit.plan.is_some()).await? {
            Entry::Answered(answer) => Ok(Some(answer)),
            Entry::Entered(entered) => {
                admit.admission_fence = Some(entered.fence());
                *passage = Some(entered);
                Ok(None)
            }
        }
    }

    /// Asks the store, again where its answer was lost: with the same run id, asking twice starts once.
    async fn create(
        &self,
        admit: &mut Admit,
        workflow: Option<&Workflow>,
    ) -> Result<StartOutcome, StartError> {
        if let (Some(plan), Some(workflow)) = (&mut admit.plan, workflow) {
            let plan = Arc::make_mut(plan);
            plan.first_turn = self.first_turn(&admit.request, plan, workflow)?;
        }
        let mut is_unknown = false;
        for _ in 0..=self.process.settings.admission_repeats_max {
            match self.process.call(admit.clone()).await {
                Ok(answer) => return Ok(answer),
                // To ask again would only keep the client waiting.
                Err(StoreError::Unavailable { effect: Effect::StorageFull, .. }) if !is_unknown => {
                    return Err(StartError::StorageFull);
                }
                Err(StoreError::Unavailable { effect, .. }) => {
                    is_unknown |= effect == Effect::Unknown;
                    admit.is_repeat = true;
                }
                // The lock was lost, or the key was taken over. Such a create can never happen any more.
                Err(StoreError::Fenced { .. }) if admit.admission_fence.is_some() => {
                    return Err(StartError::lock_lost());
                }
                Err(error) => return Err(StartError::Store(error)),
            }
        }
        Err(if is_unknown { StartError::Unknown } else { StartError::NotDone })
    }

    fn first_turn(
        &self,
        request: &RunRequest,
        plan: &StartPlan,
        workflow: &Workflow,
    ) -> Result<Option<FirstTurn>, StartError> {
        let clock = &self.process.clock;
        let turn = FirstTurn::of(workflow, request, plan, clock.now(), clock.wall_lead())
            .map_err(|illegal| StartError::Store(StoreError::Conflict(illegal.to_string())))?;
        Ok(turn.map(|mut turn| {
            let policy = &self.process.settings.dispatch_policy;
            turn.held = policy.hold_back(&request.tenant, &mut turn.dispatched);
            turn
        }))
    }

    /// Wakes the engine or the workers for what the start has made.
    fn announce(&self, admit: &Admit, decided: &StartOutcome) {
        let tenant = &admit.request.tenant;
        match decided {
            StartOutcome::Admitted { .. } => self.announce_run(admit),
            StartOutcome::Queued { blocked, .. } => {
                if let Fullness::Rate { next_at: at } | Fullness::Quiet(Quiet { until: at, .. }) =
                    blocked.fullness
                {
                    self.process.due_in(at.since(self.process.now()));
                }
                // A run that it replaces has something to take into account.
                self.process.wake(Wake::RunReady { tenant: tenant.clone() });
            }
            StartOutcome::Replayed { .. }
            | StartOutcome::KeyReused { .. }
            | StartOutcome::Joined { .. }
            | StartOutcome::AtCapacity { .. }
            | StartOutcome::LimitReached { .. }
            | StartOutcome::QueueFull { .. }
            | StartOutcome::DefinitionChanged { .. }
            | StartOutcome::LimitsChanged { .. } => {}
        }
    }

    fn announce_run(&self, admit: &Admit) {
        let RunRequest { tenant, run, .. } = &*admit.request;
        let Some(turn) = admit.first_turn() else {
            return self.process.wake(Wake::RunReady { tenant: tenant.clone() });
        };
        for job in &turn.dispatched {
            journal::dispatched(tenant, &job.id, &job.topic);
        }
        journal::ended(tenant, *run, None, turn.head.status);
        let queued = turn.dispatched.iter().chain(turn.held.iter().map(|held| &held.job));
        let due_at = queued.filter_map(|job| job.queue_until).chain(turn.head.due_at).min();
        if let Some(due_at) = due_at {
            self.process.due_in(due_at.since(self.process.now()));
        }
        self.process.announce_jobs(tenant, turn.dispatched.iter().map(|job| job.topic.clone()));
        if !turn.held.is_empty() {
            self.process.wake(Wake::JobsHeld { tenant: tenant.clone() });
        }
    }
}

/// What the definition asks for, without the first turn: a start that is refused does not need one.
fn plan(
    request: &RunRequest,
    workflow: Option<&Workflow>,
    source: Option<RerunSource<'_>>,
    book: &CompiledBook,
) -> Result<StartPlan, StartError> {
    let workflow = workflow.ok_or_else(|| StartError::WorkflowNotFound(request.workflow.clone()))?;
    if let Some(Err(violation)) = workflow.input_schema.as_ref().map(|schema| schema.check(&request.input)) {
        return Err(StartError::InvalidInput(violation.to_string()));
    }
    let copied_steps = match source {
        Some((run, step)) => rerun::steps_before(workflow, run, step)?,
        None => Vec::new(),
    };
    let RunRequest { workflow: id, input, labels, .. } = request;
    let facts = StartFacts { workflow: id, input, labels };
    Ok(StartPlan {
        workflow_version: workflow.version,
        limits_revision: book.revision,
        claims: claims(&book.rules, &facts).map_err(StartError::NoGroup)?,
        fair: fair_claims(&book.rules, &facts).map_err(StartError::NoGroup)?,
        copied_steps,
        first_turn: None,
    })
}
