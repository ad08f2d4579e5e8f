//! Runs: admitted, acquired, committed, ended.

use std::sync::Arc;
use std::time::Duration;

use interlock_model::admission::{FirstTurn, RunRequest, StartOutcome, StartPlan, Usage};
use interlock_model::approval::Approval;
use interlock_model::child::ChildEffects;
use interlock_model::dead_letter::DeadLetter;
use interlock_model::dispatch_policy::HeldJob;
use interlock_model::event::WaitEffects;
use interlock_model::history::Event;
use interlock_model::job::NewJob;
use interlock_model::limit::RunBounds;
use interlock_model::run::{Head, InboxEvent, Quarantine, Run, RunStatus, Start};
use interlock_model::step::StepRun;
use interlock_model::{Fence, InstanceId, JobId, RunId, StepKey, TenantId, Timestamp, WorkflowId};
use serde::{Deserialize, Serialize};

use crate::verb::verb;
use crate::wire;
use crate::{Page, PageRequest};

/// The answer with ready runs stops growing at this many bytes: the store does nothing else while it puts one together.
pub const READY_BYTES_MAX: usize = 1 << 20;

/// A run that only the caller may advance until the lease ends.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct AcquiredRun {
    pub start: Start,
    pub head: Head,
    /// What waits to be taken into account, in order.
    pub inbox: Vec<InboxEvent>,
    /// To be consumed by the commit, and nothing that came later.
    pub inbox_end: u64,
    /// To be presented by the commit.
    pub fence: Fence,
    /// The store's clock.
    pub now: Timestamp,
    /// Those of its tenant now.
    pub bounds: RunBounds,
}

/// What one turn of the engine changes. All of it is written, or none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Commit {
    pub tenant: TenantId,
    pub run: RunId,
    pub fence: Fence,
    /// The version that the turn began with.
    pub version: u64,
    pub head: Head,
    pub steps: Vec<(StepKey, StepRun)>,
    pub inbox_end: u64,
    pub events: Vec<Event>,
    pub dispatched: Vec<NewJob>,
    /// Dispatched, and not to be claimed until a policy has decided.
    pub held: Vec<HeldJob>,
    pub revoked: Vec<JobId>,
    pub approvals_opened: Vec<Approval>,
    pub approvals_withdrawn: Vec<JobId>,
    pub buried: Vec<DeadLetter>,
    pub children: ChildEffects,
    pub waits: WaitEffects,
    /// Dead letters that the tenant may have; the oldest make room.
    pub dead_letters_max: u32,
    /// The turn was cut: the run stays ready, whatever is in its inbox.
    pub continues: bool,
}

/// The answer to a commit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[must_use]
pub struct Committed {
    /// More came into the inbox during the turn, or the turn was cut: acquire the run again.
    pub has_more: bool,
    /// The version of the run now.
    pub version: u64,
    /// Queued runs that got the slots of the run, which has ended: they are ready.
    pub granted: u32,
}

/// A run without its steps, for lists.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RunSummary {
    pub start: Start,
    pub head: Head,
}

/// Whether a run waits for the engine, and which instance holds it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RunOwnership {
    /// The store's clock.
    pub now: Timestamp,
    /// It has something to take into account.
    pub is_ready: bool,
    pub holder: Option<RunHolder>,
    /// Turns in a row that were abandoned. From [`SUSPECT_FROM`](interlock_model::run::SUSPECT_FROM) on, it is tried alone.
    pub abandoned: u32,
    pub quarantine: Option<Quarantine>,
}

/// The instance that advances a run now.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RunHolder {
    /// None: what holds it is foreign.
    pub instance: Option<InstanceId>,
    /// None: it is unknown when it ends.
    pub until: Option<Timestamp>,
}

/// Which runs a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RunFilter {
    pub status: Option<RunStatus>,
    pub workflow: Option<WorkflowId>,
    /// Whose steps have started them.
    pub parent: Option<RunId>,
}

/// The answer to a request to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum CancelOutcome {
    /// It waits in the run's inbox.
    Posted,
    AlreadyEnded,
}

/// Tenants that have something to do now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Due {
    /// A run has something in its inbox, or waits to be started.
    pub ready: Vec<TenantId>,
    /// A retry, a delay or a timeout is due.
    pub timers: Vec<TenantId>,
    /// A worker's lease has expired.
    pub leases: Vec<TenantId>,
    /// A deferred result is due.
    pub deferred: Vec<TenantId>,
    /// A held job is due for its policy.
    pub held: Vec<TenantId>,
    /// A permit has expired, or a window of a budget is over.
    pub budgets: Vec<TenantId>,
    /// A child is to be started.
    pub children: Vec<TenantId>,
    /// An event that was sent to a key is to be delivered on, or forgotten.
    pub events: Vec<TenantId>,
    /// How long until the next timer, lease, result, held job or permit is due, as far as is known now.
    pub next_in: Option<Duration>,
}

/// Looks the idempotency key up, reads the limits, and creates run, slot, key, first events and first jobs, or none of
/// them.
#[derive(Debug, Clone, PartialEq)]
pub struct Admit {
    pub request: Arc<RunRequest>,
    /// None: the run cannot begin, and only its key, or the answer to an earlier try, may answer.
    pub plan: Option<Arc<StartPlan>>,
    /// The fence of the tenant's admission lock, if the caller holds it: then nothing is started unless it still does,
    /// and unless the key is still reserved for this run.
    pub admission_fence: Option<Fence>,
    /// Whether the caller asked with this very run id before and got no answer.
    pub is_repeat: bool,
}
verb!(write => Admit, "admit", "admit a run", StartOutcome);

impl Admit {
    pub fn version(&self) -> Option<u32> {
        self.plan.as_ref().map(|plan| plan.workflow_version)
    }

    pub fn first_turn(&self) -> Option<&FirstTurn> {
        self.plan.as_ref()?.first_turn.as_ref()
    }

    /// The answer to a start that is admitted, now or before.
    pub fn admitted(&self, usage: Usage) -> StartOutcome {
        let status = self.plan.as_ref().map_or(RunStatus::Pending, |plan| plan.status());
        StartOutcome::Admitted { run: self.request.run, status, usage }
    }
}

/// Acquires up to `limit` runs of the tenant that have something to take into account and that no instance holds. Suspects
/// are left to [`AcquireSuspect`](crate::suspects::AcquireSuspect).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AcquireReadyRuns {
    pub tenant: TenantId,
    pub holder: InstanceId,
    #[serde(serialize_with = "wire::as_millis")]
    pub lease: Duration,
    pub limit: usize,
}
verb!(write => AcquireReadyRuns, "acquire_ready_runs", "acquire ready runs", ReadyRuns);

/// The answer to acquiring ready runs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ReadyRuns {
    pub runs: Vec<AcquiredRun>,
    /// A suspect was met on the way.
    pub has_suspects: bool,
}

/// Acquires this run, unless another instance holds it, it is a suspect, or it has nothing to take into account.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AcquireRun {
    pub tenant: TenantId,
    pub run: RunId,
    pub holder: InstanceId,
    #[serde(serialize_with = "wire::as_millis")]
    pub lease: Duration,
}
verb!(write => AcquireRun, "acquire_run", "acquire a run", Option<AcquiredRun>);

verb!(write => Commit, "commit", "commit a run", Committed);

/// Extends the lease of an acquired run to `lease` from now. The store rejects it once the lease has expired or is
/// another instance's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExtendRunLease {
    pub tenant: TenantId,
    pub run: RunId,
    pub fence: Fence,
    #[serde(serialize_with = "wire::as_millis")]
    pub lease: Duration,
}
verb!(write => ExtendRunLease, "extend_run_lease", "extend the lease of a run", ());

/// Releases an acquired run without having changed it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReleaseRun {
    pub tenant: TenantId,
    pub run: RunId,
    pub fence: Fence,
}
verb!(write => ReleaseRun, "release_run", "release a run", ());

/// Puts a request to cancel into the run's inbox.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestCancel {
    pub tenant: TenantId,
    pub run: RunId,
    pub by: String,
}
verb!(write => RequestCancel, "request_cancel", "cancel a run", CancelOutcome);

/// Removes a run with everything of it but its idempotency key. A live one ends in the same step. Answers with the jobs
/// that it had.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeleteRun {
    pub tenant: TenantId,
    pub run: RunId,
}
verb!(write => DeleteRun, "delete_run", "delete a run", Vec<JobId>);

/// Makes the tenant's runs ready whose timers are due. Answers with how many.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FireTimers {
    pub tenant: TenantId,
    /// Those that are due within this time, too: the turn of a run sets its timer again if it came too early.
    #[serde(serialize_with = "wire::as_millis")]
    pub ahead: Duration,
    pub limit: usize,
}
verb!(write => FireTimers, "fire_timers", "fire timers", usize);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadRun {
    pub tenant: TenantId,
    pub run: RunId,
}
verb!(read => ReadRun, "read_run", "read a run", Option<Run>);

/// Whether the run, which need not exist, waits for the engine, and which instance holds it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadRunOwnership {
    pub tenant: TenantId,
    pub run: RunId,
}
verb!(read => ReadRunOwnership, "read_run_ownership", "read who holds a run", RunOwnership);

/// Runs that one [`ReadRunStatuses`] may name.
pub const STATUSES_MAX: usize = 500;

/// The status of each of these runs that exists, in their order. One call follows many runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadRunStatuses {
    pub tenant: TenantId,
    /// At most [`STATUSES_MAX`].
    pub runs: Vec<RunId>,
}
verb!(read => ReadRunStatuses, "read_run_statuses", "read the status of runs", Vec<(RunId, RunStatus)>);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListRuns {
    pub tenant: TenantId,
    pub filter: RunFilter,
    pub page: PageRequest,
}
verb!(read => ListRuns, "list_runs", "list runs", Page<RunSummary>);

/// The runs that hold a slot, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListActiveRuns {
    pub tenant: TenantId,
    pub limit: usize,
}
verb!(read => ListActiveRuns, "list_active_runs", "list active runs", Vec<RunId>);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadUsage {
    pub tenant: TenantId,
}
verb!(read => ReadUsage, "read_usage", "read usage", Usage);

/// Where there is something to do now.
#[derive(Debug, Clone, PartialEq)]
pub struct FindDue {
    pub limit: usize,
}
verb!(read => FindDue, "find_due", "look for work", Due);
