//! Whether a run may start now.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::Approval;
use crate::dispatch_policy::HeldJob;
use crate::fingerprint::Fingerprint;
use crate::history::Event;
use crate::job::NewJob;
use crate::limit::document::Labels;
use crate::limit::fair::FairClaim;
use crate::limit::place::{Blocked, StartPriority};
use crate::limit::rule::SlotClaim;
use crate::run::{Head, RunStatus, Start, StartedFrom};
use crate::step::StepRun;
use crate::tenant::SlotFlow;
use crate::trace::TraceParent;
use crate::{Fence, IdempotencyKey, RunId, StepKey, TenantId, Timestamp, WorkflowId};

/// An idempotency key and the fingerprint of the payload it came with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IdempotentIntent {
    pub key: IdempotencyKey,
    pub fingerprint: Fingerprint,
}

/// A request to start a run. `run` is the id of the new run, so sending the request again is safe.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRequest {
    pub run: RunId,
    pub tenant: TenantId,
    pub workflow: WorkflowId,
    pub input: Value,
    pub intent: Option<IdempotentIntent>,
    pub origin: StartedFrom,
    pub labels: Labels,
    pub priority: StartPriority,
    /// The span of the client that started the run, if it sent a `traceparent`.
    pub trace: Option<TraceParent>,
}

impl RunRequest {
    /// The immutable part of the run, written once.
    pub fn start(&self, workflow_version: u32, now: Timestamp) -> Start {
        Start {
            run: self.run,
            tenant: self.tenant.clone(),
            workflow: self.workflow.clone(),
            workflow_version,
            input: self.input.clone(),
            idempotency_key: self.intent.as_ref().map(|intent| intent.key.clone()),
            origin: self.origin.clone(),
            parent: None,
            labels: self.labels.clone(),
            priority: self.priority,
            created_at: now,
            trace: self.trace,
        }
    }
}

/// How a run begins under the definition that the caller compiled.
#[derive(Debug, Clone, PartialEq)]
pub struct StartPlan {
    /// If it is not the current version, nothing is started.
    pub workflow_version: u32,
    /// The tenant's named limits that `claims` was made by. If they have changed, nothing is started.
    pub limits_revision: u64,
    /// The groups of named limits that the run counts in, the narrowest first.
    pub claims: Vec<SlotClaim>,
    /// The groups of fair queues that are charged for it.
    pub fair: Vec<FairClaim>,
    /// Finished steps that a rerun copies from its source.
    pub copied_steps: Vec<(StepKey, StepRun)>,
    /// The engine's first turn, written together with the run. If absent, the engine advances the run later.
    pub first_turn: Option<FirstTurn>,
}

impl StartPlan {
    /// A run that counts in no named limit, of a tenant that never had one.
    pub fn unlimited(workflow_version: u32) -> Self {
        Self {
            workflow_version,
            limits_revision: 0,
            claims: Vec::new(),
            fair: Vec::new(),
            copied_steps: Vec::new(),
            first_turn: None,
        }
    }

    /// The status of a run that begins by this plan.
    pub fn status(&self) -> RunStatus {
        self.first_turn.as_ref().map_or(RunStatus::Pending, |turn| turn.head.status)
    }
}

/// The first turn of a run, computed before admission so that a start and its first dispatch are one write.
#[derive(Debug, Clone, PartialEq)]
pub struct FirstTurn {
    pub head: Head,
    pub steps: Vec<(StepKey, StepRun)>,
    pub events: Vec<Event>,
    pub dispatched: Vec<NewJob>,
    /// Dispatched jobs that no worker may claim until the dispatch policy releases them.
    pub held: Vec<HeldJob>,
    pub approvals_opened: Vec<Approval>,
}

/// The tenant's active runs and its limit at the time of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Usage {
    pub runs_active: u32,
    pub runs_max: u32,
}

impl Usage {
    pub fn free(self) -> u32 {
        self.runs_max.saturating_sub(self.runs_active)
    }
}

/// The outcome of a start request. Each variant is a normal outcome; none is an error.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum StartOutcome {
    /// The run was created and holds one of its tenant's slots.
    Admitted { run: RunId, status: RunStatus, usage: Usage },
    /// This idempotency key already started `run`; nothing was created. Without a status, the run was deleted since.
    Replayed { run: RunId, status: Option<RunStatus>, usage: Usage },
    /// This idempotency key started `run` with another payload; nothing was created.
    KeyReused { run: RunId, usage: Usage },
    /// The run was created without a slot, and waits. Without a position it is further back than is counted.
    Queued { run: RunId, position: Option<u64>, blocked: Blocked, usage: Usage },
    /// The group had its run already, and that one answers; nothing was created.
    Joined { run: RunId, status: RunStatus, blocked: Blocked, usage: Usage },
    /// A named limit is full; nothing was created.
    LimitReached { blocked: Blocked, usage: Usage },
    /// A limit is full, and as many runs wait as may; nothing was created.
    QueueFull { blocked: Blocked, usage: Usage },
    /// The tenant's named limits have changed; nothing was created. Load them and retry.
    LimitsChanged { usage: Usage },
    /// The tenant holds all of its slots; nothing was created.
    AtCapacity { usage: Usage, slot_flow: SlotFlow },
    /// The workflow has another version now, or was deleted; nothing was created. Load it and retry.
    DefinitionChanged { current: Option<u32>, usage: Usage },
}

/// The run that an idempotency key stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    pub run: RunId,
    pub fingerprint: Fingerprint,
    /// When the key may be reused; never, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Absent once the run exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
}

/// A key claimed under the tenant's admission lock before its run exists. It is only a hint: the create decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The lock's fence. A later holder, with a larger fence, takes the reservation over.
    pub fence: Fence,
    /// When it expires because its process died.
    pub until: Timestamp,
}

impl KeyRecord {
    pub fn is_live(&self, now: Timestamp) -> bool {
        let ends = [self.expires_at, self.reservation.map(|reservation| reservation.until)];
        ends.into_iter().flatten().all(|at| now < at)
    }
}

/// What an idempotency key means for a start. Checked before the cap, so that a retry of a success never fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum KeyVerdict {
    Fresh,
    /// Reserved for `run`, which does not exist yet.
    Reserved(RunId, Fence),
    Replay(RunId),
    Mismatch(RunId),
}

impl KeyVerdict {
    pub fn of(record: Option<&KeyRecord>, intent: &IdempotentIntent, now: Timestamp) -> Self {
        match record {
            Some(record) if record.is_live(now) => match record.reservation {
                Some(reservation) => Self::Reserved(record.run, reservation.fence),
                None if record.fingerprint == intent.fingerprint => Self::Replay(record.run),
                None => Self::Mismatch(record.run),
            },
            Some(_) | None => Self::Fresh,
        }
    }
}
