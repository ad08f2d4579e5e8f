//! Who may start.

mod atomic;
mod lock;
mod locked;
mod reservation;

use std::time::Duration;

use interlock_backend::{StoreError, Wake};
use interlock_model::admission::{Admission, IdempotentIntent, StartRun, Usage};
use interlock_model::contention::AdmissionStrategy;
use interlock_model::fingerprint::Fingerprint;
use interlock_model::run::{RunStatus, StartedFrom};
use interlock_model::step::StepRun;
use interlock_model::tenant::SlotFlow;
use interlock_model::time::millis;
use interlock_model::workflow::Workflow;
use interlock_model::{IdempotencyKey, RunId, StepId, StepKey, TenantId, WorkflowId};
use serde_json::Value;

use crate::service::Control;
use locked::Passage;
pub(crate) use reservation::Cleanups;

/// A client that wants a run.
#[derive(Debug, Clone)]
pub struct StartRequest {
    pub tenant: TenantId,
    pub workflow: WorkflowId,
    pub input: Value,
    pub key: Option<IdempotencyKey>,
}

/// A client that wants an ended run again.
#[derive(Debug, Clone)]
pub struct RerunRequest {
    pub tenant: TenantId,
    pub run: RunId,
    /// Take over what this step depends on, instead of running all again.
    pub from_step: Option<StepId>,
    pub key: Option<IdempotencyKey>,
}

/// What became of a start. Every variant is a normal outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Started {
    New {
        run: RunId,
        status: RunStatus,
        usage: Usage,
    },
    /// Started before under the same key. No status: deleted since.
    Replayed {
        run: RunId,
        status: Option<RunStatus>,
        usage: Usage,
    },
    KeyReused {
        run: RunId,
        usage: Usage,
    },
    AtCapacity {
        usage: Usage,
        retry_after: Duration,
    },
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
    #[error("the workflow has no step {0}")]
    UnknownStep(StepId),
    #[error("{0}")]
    NotRerunnable(String),
    /// Others had the tenant's admission lock for too long, or this start lost it.
    #[error("the tenant's admission lock was not to be had in time ({because}); nothing was started")]
    GateBusy { because: String, retry_after: Duration },
    /// The store did not do it.
    #[error("the store did not answer in time; nothing was started")]
    NotDone { retry_after: Duration },
    /// The store may have done it.
    #[error("the store's answer was lost; the run may or may not have started")]
    Unknown { retry_after: Duration },
    #[error(transparent)]
    Store(StoreError),
}

/// How often a definition may change under one start before it gives up.
const RELOADS_MAX: u32 = 5;

impl Control {
    pub async fn start(&self, request: StartRequest) -> Result<Started, StartError> {
        let intent = request.key.map(|key| IdempotentIntent {
            fingerprint: Fingerprint::of_start(&request.workflow, &request.input),
            key,
        });
        let run = self.identity.run_id(self.clock.now());
        let start = StartRun {
            run,
            tenant: request.tenant,
            workflow: request.workflow,
            workflow_version: 0,
            input: request.input,
            intent,
            origin: StartedFrom::Request,
            is_repeat: false,
            copied_steps: Vec::new(),
            first_turn: None,
            hold: None,
        };
        self.admit_current(start, |_| Ok(Vec::new())).await
    }

    pub async fn rerun(&self, request: RerunRequest) -> Result<Started, StartError> {
        let found = self.store.run(&request.tenant, request.run).await.map_err(StartError::Store)?;
        let source = found.ok_or(StartError::RunNotFound(request.run))?;
        if !source.head.status.is_final() {
            return Err(StartError::NotRerunnable(format!("run {} has not ended yet", request.run)));
        }
        let from_step = request.from_step;
        let intent = request.key.map(|key| IdempotentIntent {
            fingerprint: Fingerprint::of_rerun(request.run, from_step.as_ref()),
            key,
        });
        let start = StartRun {
            run: self.identity.run_id(self.clock.now()),
            tenant: request.tenant,
            workflow: source.start.workflow.clone(),
            workflow_version: 0,
            input: source.start.input.clone(),
            intent,
            origin: StartedFrom::Rerun { of: request.run, from_step: from_step.clone() },
            is_repeat: false,
            copied_steps: Vec::new(),
            first_turn: None,
            hold: None,
        };
        let copied = move |workflow: &Workflow| match &from_step {
            None => Ok(Vec::new()),
            Some(step) if !workflow.steps.contains_key(step) => Err(StartError::UnknownStep(step.clone())),
            Some(step) => {
                crate::runs::steps_before(workflow, &source, step).map_err(StartError::NotRerunnable)
            }
        };
        self.admit_current(start, copied).await
    }

    async fn admit_current(
        &self,
        mut start: StartRun,
        copied: impl Fn(&Workflow) -> Result<Vec<(StepKey, StepRun)>, StartError>,
    ) -> Result<Started, StartError> {
        let mut passage = None;
        let decided = self.decide_current(&mut start, copied, &mut passage).await;
        if let Some(passage) = passage {
            passage.close(&decided);
        }
        Ok(self.started(start, &decided?))
    }

    /// Asks for admission with the current definition, again if it has changed meanwhile.
    async fn decide_current(
        &self,
        start: &mut StartRun,
        copied: impl Fn(&Workflow) -> Result<Vec<(StepKey, StepRun)>, StartError>,
        passage: &mut Option<Passage>,
    ) -> Result<Admission, StartError> {
        let mut workflow =
            self.current_workflow(&start.tenant, &start.workflow).await.map_err(StartError::Store)?;
        for _ in 0..RELOADS_MAX {
            let refusal = prepare(start, workflow.as_deref(), &copied).err();
            match refusal {
                // A retry of a start that worked is answered even if it would not pass today.
                Some(refusal) if start.intent.is_none() => return Err(refusal),
                Some(_) | None => {}
            }
            let begins = workflow.as_deref().filter(|_| refusal.is_none());
            let decided = match self.contention.admission_strategy() {
                AdmissionStrategy::Atomic => self.admit_atomically(start, begins).await?,
                AdmissionStrategy::Lock => self.admit_locked(start, begins, passage).await?,
            };
            match (decided, refusal) {
                (Admission::DefinitionChanged { .. }, Some(refusal)) => return Err(refusal),
                (Admission::DefinitionChanged { .. }, None) => {
                    // A try that got no answer may have been admitted, or be admitted yet.
                    start.is_repeat = true;
                    let found = self.reload_workflow(&start.tenant, &start.workflow).await;
                    workflow = found.map_err(StartError::Store)?;
                }
                (decided, _) => return Ok(decided),
            }
        }
        Err(StartError::NotDone { retry_after: self.retry_after(None) })
    }

    fn started(&self, start: StartRun, decided: &Admission) -> Started {
        match *decided {
            Admission::Admitted { run, usage } => {
                Started::New { run, status: self.announce_start(start), usage }
            }
            Admission::Replayed { run, status, usage } => Started::Replayed { run, status, usage },
            Admission::KeyReused { run, usage } => Started::KeyReused { run, usage },
            Admission::AtCapacity { usage, slot_flow } => {
                Started::AtCapacity { usage, retry_after: self.retry_after(Some(slot_flow)) }
            }
            Admission::DefinitionChanged { .. } => unreachable!("the caller reloads the definition"),
        }
    }

    /// Wakes whoever has something to do for the new run. Returns where the run stands.
    fn announce_start(&self, start: StartRun) -> RunStatus {
        let Some(turn) = start.first_turn else {
            self.wake(Wake::RunReady { tenant: start.tenant });
            return RunStatus::Pending;
        };
        self.announce_jobs(&start.tenant, turn.dispatched.into_iter().map(|job| job.topic).collect());
        if !turn.held.is_empty() {
            self.wake(Wake::JobsHeld { tenant: start.tenant });
        }
        turn.head.status
    }

    /// When a refused client should come back: as slots really come free, spread by half on both sides so that the
    /// refused do not return as one wave.
    fn retry_after(&self, flow: Option<SlotFlow>) -> Duration {
        let expected = flow.and_then(SlotFlow::expected_wait).unwrap_or_default();
        let (low, high) = (self.settings.retry_after_min, self.settings.retry_after_max);
        let middle = millis(expected.clamp(low, high));
        // The floor is part of the draw: cutting at it afterwards would gather a wave there.
        let wait = self.identity.between(millis(low).max(middle / 2), middle + middle / 2);
        Duration::from_millis(wait)
    }
}

/// Gives the start the version, and the steps, that the definition asks for.
fn prepare(
    start: &mut StartRun,
    workflow: Option<&Workflow>,
    copied: impl Fn(&Workflow) -> Result<Vec<(StepKey, StepRun)>, StartError>,
) -> Result<(), StartError> {
    start.workflow_version = 0;
    let workflow = workflow.ok_or_else(|| StartError::WorkflowNotFound(start.workflow.clone()))?;
    if let Some(Err(violation)) = workflow.input_schema.as_ref().map(|schema| schema.check(&start.input)) {
        return Err(StartError::InvalidInput(violation.to_string()));
    }
    start.copied_steps = copied(workflow)?;
    start.workflow_version = workflow.version;
    Ok(())
}
