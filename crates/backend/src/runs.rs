//! Runs: admitted, taken, committed, ended.

use std::time::Duration;

use async_trait::async_trait;
use interlock_model::admission::{Admission, StartRun, Usage};
use interlock_model::approval::Approval;
use interlock_model::dead_letter::DeadLetter;
use interlock_model::dispatch_policy::HeldJob;
use interlock_model::history::Event;
use interlock_model::job::NewJob;
use interlock_model::run::{Head, InboxEvent, Run, RunStatus, Start};
use interlock_model::step::StepRun;
use interlock_model::{Fence, InstanceId, JobId, RunId, StepKey, TenantId, Timestamp, WorkflowId};

use crate::{Page, PageRequest, StoreError};

/// A run that its taker may advance, alone, until the lease ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
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
}

/// What one turn of the engine changes. All of it is written, or none.
#[derive(Debug, Clone, PartialEq)]
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
    /// Dispatched, and not to be claimed until it is settled what becomes of them.
    pub held: Vec<HeldJob>,
    pub revoked: Vec<JobId>,
    pub approvals_opened: Vec<Approval>,
    pub approvals_withdrawn: Vec<JobId>,
    pub buried: Vec<DeadLetter>,
    /// Dead letters that the tenant may have; the oldest make room.
    pub letters_max: u32,
}

/// What a commit left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Committed {
    /// More came into the inbox during the turn: take the run again.
    pub has_more: bool,
    /// The version that the run is at now.
    pub version: u64,
}

/// A run without its steps, for lists.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    pub start: Start,
    pub head: Head,
}

/// Whether a run is somebody's turn, and whose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStanding {
    /// The store's clock.
    pub now: Timestamp,
    /// It has something to take into account.
    pub is_ready: bool,
    pub hold: Option<RunHold>,
}

/// Who advances a run now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunHold {
    /// None: what holds it is not ours.
    pub holder: Option<InstanceId>,
    /// None: nobody knows when it ends.
    pub until: Option<Timestamp>,
}

/// Which runs a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub status: Option<RunStatus>,
    pub workflow: Option<WorkflowId>,
}

/// The answer to "end this run".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum CancelRequest {
    /// It waits in the run's inbox.
    Posted,
    AlreadyEnded,
}

/// Tenants that have something to do now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Due {
    /// A run has something in its inbox, or waits to be started.
    pub ready: Vec<TenantId>,
    /// A retry, a delay or a time-out is due.
    pub timers: Vec<TenantId>,
    /// A worker's lease has run out.
    pub leases: Vec<TenantId>,
    /// A result that was put off is to be delivered again.
    pub put_off: Vec<TenantId>,
    /// A held job is to be looked at.
    pub held: Vec<TenantId>,
    /// How long until the next timer, lease, result or held job is due, as far as is known now.
    pub next_in: Option<Duration>,
}

/// What a store knows at once, without waiting for anything.
pub trait Glance: Send + Sync {
    /// The answer of [`admit`](RunStore::admit), if it is certain that the start changes nothing: a storm of refusals
    /// then costs next to nothing. None: ask `admit`.
    fn refusal(&self, start: &StartRun) -> Option<Admission>;

    /// Verbs that this process has sent to the store.
    fn commands_sent(&self) -> u64;
}

#[async_trait]
pub trait RunStore: Send + Sync {
    /// Looks the key up, reads the limits, and creates run, slot, key and first event, or none of them.
    async fn admit(&self, start: &StartRun) -> Result<Admission, StoreError>;

    /// Takes up to `limit` runs of the tenant that have something to take into account and that nobody holds.
    async fn take_ready(
        &self,
        tenant: &TenantId,
        holder: &InstanceId,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<Taken>, StoreError>;

    /// Takes this run, unless it is held or has nothing to take into account.
    async fn take(
        &self,
        tenant: &TenantId,
        run: RunId,
        holder: &InstanceId,
        lease: Duration,
    ) -> Result<Option<Taken>, StoreError>;

    /// Writes one turn and lets go of the run. Refused if the fence or the version is not the latest. A run that ends
    /// gives its slot back here.
    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError>;

    /// Keeps a taken run for `lease` from now on. Refused once the hold has run out or is another's.
    async fn keep_run(
        &self,
        tenant: &TenantId,
        run: RunId,
        fence: Fence,
        lease: Duration,
    ) -> Result<(), StoreError>;

    /// Lets go of a run without having changed it.
    async fn let_go(&self, tenant: &TenantId, run: RunId, fence: Fence) -> Result<(), StoreError>;

    /// Puts a request to cancel into the run's inbox.
    async fn request_cancel(
        &self,
        tenant: &TenantId,
        run: RunId,
        by: &str,
    ) -> Result<CancelRequest, StoreError>;

    /// Removes a run with everything of it but its idempotency key. A live one ends in the same step. Returns the jobs
    /// that it had.
    async fn delete_run(&self, tenant: &TenantId, run: RunId) -> Result<Vec<JobId>, StoreError>;

    /// Makes the tenant's runs ready whose time has come. Returns how many.
    async fn ripen(&self, tenant: &TenantId, limit: usize) -> Result<usize, StoreError>;

    async fn run(&self, tenant: &TenantId, run: RunId) -> Result<Option<Run>, StoreError>;

    /// Whether the run, there or not, waits for the engine, and whether somebody holds it.
    async fn run_standing(&self, tenant: &TenantId, run: RunId) -> Result<RunStanding, StoreError>;

    async fn runs(
        &self,
        tenant: &TenantId,
        filter: &RunFilter,
        page: &PageRequest,
    ) -> Result<Page<RunSummary>, StoreError>;

    /// The runs that hold a slot, oldest first.
    async fn active_runs(&self, tenant: &TenantId, limit: usize) -> Result<Vec<RunId>, StoreError>;

    async fn usage(&self, tenant: &TenantId) -> Result<Usage, StoreError>;

    /// Where there is something to do now.
    async fn due(&self, limit: usize) -> Result<Due, StoreError>;
}
