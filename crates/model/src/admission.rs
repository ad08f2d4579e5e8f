//! May this run start now?

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::Approval;
use crate::dispatch_policy::HeldJob;
use crate::fingerprint::Fingerprint;
use crate::history::Event;
use crate::job::NewJob;
use crate::run::{Head, RunStatus, Start, StartedFrom};
use crate::step::StepRun;
use crate::tenant::SlotFlow;
use crate::{Fence, IdempotencyKey, RunId, StepKey, TenantId, Timestamp, WorkflowId};

/// A client's name for one intent, with what it was sent with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotentIntent {
    pub key: IdempotencyKey,
    pub fingerprint: Fingerprint,
}

/// A request to start a run. `run` is the id that it gets if it is admitted; asking again with the same id is safe.
#[derive(Debug, Clone, PartialEq)]
pub struct StartRun {
    pub run: RunId,
    pub tenant: TenantId,
    pub workflow: WorkflowId,
    /// The version that the caller knows. If it is not the current one, nothing is started.
    pub workflow_version: u32,
    pub input: Value,
    pub intent: Option<IdempotentIntent>,
    pub origin: StartedFrom,
    /// Whether the caller asked with this very id before and got no answer.
    pub is_repeat: bool,
    /// Steps that a rerun takes over as they ended.
    pub copied_steps: Vec<(StepKey, StepRun)>,
    /// What the engine would do first, to be written with the run. None: the run is left to the engine.
    pub first_turn: Option<FirstTurn>,
    /// The fence of the tenant's admission lock, if the caller holds it: then nothing is started unless it still does,
    /// and unless the key is still reserved for this run.
    pub hold: Option<Fence>,
}

impl StartRun {
    /// What is written down of the request, once.
    #[must_use]
    pub fn asked(&self, now: Timestamp) -> Start {
        Start {
            run: self.run,
            tenant: self.tenant.clone(),
            workflow: self.workflow.clone(),
            workflow_version: self.workflow_version,
            input: self.input.clone(),
            idempotency_key: self.intent.as_ref().map(|intent| intent.key.clone()),
            origin: self.origin.clone(),
            created_at: now,
        }
    }
}

/// The first turn of a run, decided before it is admitted: a start and its first dispatch are one write.
#[derive(Debug, Clone, PartialEq)]
pub struct FirstTurn {
    pub head: Head,
    pub steps: Vec<(StepKey, StepRun)>,
    pub events: Vec<Event>,
    pub dispatched: Vec<NewJob>,
    /// Dispatched, and not to be claimed until it is decided whether they may be.
    pub held: Vec<HeldJob>,
    pub approvals_opened: Vec<Approval>,
}

/// What the tenant used and might use when the answer was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub runs_active: u32,
    pub runs_max: u32,
}

impl Usage {
    #[must_use]
    pub fn free(self) -> u32 {
        self.runs_max.saturating_sub(self.runs_active)
    }
}

/// The answer to "may this run start now?". Each variant is a normal outcome; none is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// The run was created and holds one of its tenant's slots.
    Admitted { run: RunId, usage: Usage },
    /// This idempotency key already started `run`; nothing was created. No status: the run was deleted since.
    Replayed { run: RunId, status: Option<RunStatus>, usage: Usage },
    /// This idempotency key started `run` with another payload; nothing was created.
    KeyReused { run: RunId, usage: Usage },
    /// The tenant holds all of its slots; nothing was created.
    AtCapacity { usage: Usage, slot_flow: SlotFlow },
    /// The workflow is now at another version, or gone; nothing was created. Load it and ask again.
    DefinitionChanged { current: Option<u32>, usage: Usage },
}

/// What an idempotency key stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    pub run: RunId,
    pub fingerprint: Fingerprint,
    /// When the key may be used afresh; never, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Absent once the run is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
}

/// A key that somebody under the tenant's admission lock means to use. A hint to people and to the next in the lock: only
/// the create decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Of the lock that it was made under. Whoever holds the lock under a larger one takes it over.
    pub fence: Fence,
    /// When it ends without another word: its process has died.
    pub until: Timestamp,
}

impl KeyRecord {
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        let ends = [self.expires_at, self.reservation.map(|reservation| reservation.until)];
        ends.into_iter().flatten().all(|at| now < at)
    }
}

/// What the key says about a start, before the cap is looked at: a retry must not fail because it worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum KeyVerdict {
    Fresh,
    /// Somebody means to start `run` under it, and has not yet.
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
