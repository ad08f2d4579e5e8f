//! Ordered tables of text, and how a decision reads and changes them.

use std::future::Future;

use interlock_model::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::StoreError;

/// A table: keys in byte order, values in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// `tenant` → limits, live runs, last fence.
    Tenants,
    /// `limits` → the system's limits.
    System,
    /// `tenant/workflow` → its current version, or that it is deleted.
    WorkflowHeads,
    /// `tenant/time/workflow` for each workflow that is not deleted, by when it was last saved.
    WorkflowListing,
    /// `tenant/workflow/version` → the document.
    WorkflowVersions,
    /// `tenant/workflow/key` → the run that an idempotency key started.
    IdempotencyKeys,
    /// `tenant/run` → what was asked.
    Starts,
    /// `tenant/run` → where the run stands.
    Heads,
    /// `tenant/run/step` → where the step stands.
    Steps,
    /// `tenant/run` for each run that was deleted: a start whose reply was lost must not bring it back.
    DeletedRuns,
    /// `tenant/run` for each run that holds a slot.
    Active,
    /// `tenant/run` for each run that has something to take into account.
    Ready,
    /// `tenant/run/number` → what a run must take into account.
    Inbox,
    /// `tenant/run` → who advances the run now.
    RunLeases,
    /// `tenant/time/run` for each run to which something happens by itself.
    Timers,
    /// `tenant/run/number` → what happened.
    Timeline,
    /// `tenant/job` → the job.
    Jobs,
    /// `tenant/time/job` for each job, by when it was dispatched.
    JobListing,
    /// `tenant/topic/time/job`, or `tenant/topic+kind/time/job`, for each job that waits for a worker.
    Queue,
    /// `tenant/job` → the worker's hold on it.
    JobLeases,
    /// `tenant/time/job` for each lease, by when it runs out.
    JobExpiries,
    /// `tenant/job` → a result that waits for its next delivery.
    PutOff,
    /// `tenant/time/job` for each of them, by when it is due.
    PutOffDue,
    /// `tenant/job` → why a job is held that must not go to its queue yet.
    Held,
    /// `tenant/time/job` for each of them that no person is asked about, by when it is looked at.
    HeldDue,
    /// `tenant/rule` → how many jobs a rule of the dispatch policy has let go in its period.
    Throttles,
    /// `tenant/job` → the approval.
    Approvals,
    /// `tenant/job` for each approval that is open.
    OpenApprovals,
    /// `tenant/job` → a job that was given up.
    DeadLetters,
    /// `tenant/worker` → when and how it was last seen.
    Workers,
    /// `key` → the API key.
    ApiKeys,
    /// `worker` → a worker on the bus, as it last spoke.
    Registry,
    /// `home/lock` → who holds it. A home is a tenant; a lock of the control plane itself has one of its own.
    Locks,
    /// `home/lock/place` → who waits for it.
    LockLine,
    /// `home/lock/number` → what happened to it.
    LockHistory,
    /// `home/time/lock` for each lock that is held, by since when.
    LockListing,
    /// `home/time/lock` for each lock, by when nothing of it is alive any more, or all of it can be forgotten.
    LockSweeps,
    /// `home` → how many locks it holds and waits for.
    LockTallies,
    /// `name` → a document about the installation, with its version.
    Documents,
    /// `rollout/instance` → what a process has counted of a roll-out.
    Figures,
}

impl Table {
    pub const ALL: [Self; 40] = [
        Self::Tenants,
        Self::System,
        Self::WorkflowHeads,
        Self::WorkflowListing,
        Self::WorkflowVersions,
        Self::IdempotencyKeys,
        Self::Starts,
        Self::Heads,
        Self::Steps,
        Self::DeletedRuns,
        Self::Active,
        Self::Ready,
        Self::Inbox,
        Self::RunLeases,
        Self::Timers,
        Self::Timeline,
        Self::Jobs,
        Self::JobListing,
        Self::Queue,
        Self::JobLeases,
        Self::JobExpiries,
        Self::PutOff,
        Self::PutOffDue,
        Self::Held,
        Self::HeldDue,
        Self::Throttles,
        Self::Approvals,
        Self::OpenApprovals,
        Self::DeadLetters,
        Self::Workers,
        Self::ApiKeys,
        Self::Registry,
        Self::Locks,
        Self::LockLine,
        Self::LockHistory,
        Self::LockListing,
        Self::LockSweeps,
        Self::LockTallies,
        Self::Documents,
        Self::Figures,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tenants => "tenants",
            Self::System => "system",
            Self::WorkflowHeads => "workflow_heads",
            Self::WorkflowListing => "workflow_listing",
            Self::WorkflowVersions => "workflow_versions",
            Self::IdempotencyKeys => "idempotency_keys",
            Self::Starts => "starts",
            Self::Heads => "heads",
            Self::Steps => "steps",
            Self::DeletedRuns => "deleted_runs",
            Self::Active => "active",
            Self::Ready => "ready",
            Self::Inbox => "inbox",
            Self::RunLeases => "run_leases",
            Self::Timers => "timers",
            Self::Timeline => "timeline",
            Self::Jobs => "jobs",
            Self::JobListing => "job_listing",
            Self::Queue => "queue",
            Self::JobLeases => "job_leases",
            Self::JobExpiries => "job_expiries",
            Self::PutOff => "put_off",
            Self::PutOffDue => "put_off_due",
            Self::Held => "held",
            Self::HeldDue => "held_due",
            Self::Throttles => "throttles",
            Self::Approvals => "approvals",
            Self::OpenApprovals => "open_approvals",
            Self::DeadLetters => "dead_letters",
            Self::Workers => "workers",
            Self::ApiKeys => "api_keys",
            Self::Registry => "registry",
            Self::Locks => "locks",
            Self::LockLine => "lock_line",
            Self::LockHistory => "lock_history",
            Self::LockListing => "lock_listing",
            Self::LockSweeps => "lock_sweeps",
            Self::LockTallies => "lock_tallies",
            Self::Documents => "documents",
            Self::Figures => "figures",
        }
    }
}

/// Which rows of a range, and from which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// At most so many from the beginning, in order.
    First(usize),
    /// At most so many from the end, backwards.
    Last(usize),
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub key: String,
    pub value: String,
}

/// The tables as they are at one moment.
pub trait View {
    fn get(&self, table: Table, key: &str) -> Result<Option<String>, StoreError>;

    /// Rows with `from <= key < until`.
    fn scan(&self, table: Table, from: &str, until: &str, pick: Pick) -> Result<Vec<Row>, StoreError>;
}

/// What a decision wants written, in order. A key that is written twice keeps the last value.
#[derive(Debug, Default)]
pub struct Changes {
    writes: Vec<(Table, String, Option<String>)>,
}

impl Changes {
    pub fn put(&mut self, table: Table, key: impl Into<String>, value: &impl Serialize) {
        let value = serde_json::to_string(value).expect("rows are plain data with text keys");
        self.writes.push((table, key.into(), Some(value)));
    }

    /// Writes a row whose key says it all.
    pub fn mark(&mut self, table: Table, key: impl Into<String>) {
        self.writes.push((table, key.into(), Some(String::new())));
    }

    pub fn delete(&mut self, table: Table, key: impl Into<String>) {
        self.writes.push((table, key.into(), None));
    }

    /// Writes whatever text, or deletes the row: for tests that spoil rows.
    #[cfg(feature = "testing")]
    pub(crate) fn overwrite(&mut self, table: Table, key: String, value: Option<String>) {
        self.writes.push((table, key, value));
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The writes, in order: table, key, and the value, or none to delete the row.
    #[must_use]
    pub fn into_writes(self) -> Vec<(Table, String, Option<String>)> {
        self.writes
    }
}

/// An answer, and what must be written for it to be true.
#[derive(Debug)]
pub struct Decision<R> {
    pub answer: R,
    pub changes: Changes,
}

impl<R> Decision<R> {
    /// An answer that changes nothing.
    pub fn unchanged(answer: R) -> Self {
        Self { answer, changes: Changes::default() }
    }
}

/// A verb that may be asked more than once.
pub type Decide<'a, R> = dyn Fn(&dyn View, Timestamp) -> Result<Decision<R>, StoreError> + 'a;

/// Keeps tables and runs decisions on them, one after the other.
pub trait Executor: Send + Sync + 'static {
    /// Runs `decide` on the latest tables and applies its changes, durably, before it answers. An error changes
    /// nothing.
    fn write<R: Send + 'static>(
        &self,
        action: &'static str,
        decide: impl FnOnce(&dyn View, Timestamp) -> Result<Decision<R>, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<R, StoreError>> + Send;

    /// Looks at tables that are at least as new as every answer given before.
    fn read<R: Send + 'static>(
        &self,
        action: &'static str,
        look: impl FnOnce(&dyn View, Timestamp) -> Result<R, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<R, StoreError>> + Send;

    /// Runs `decide` at once on what is held in memory. No answer if that is not enough, or if the decision would
    /// change something; then [`write`](Self::write) decides.
    fn peek<R>(&self, decide: &Decide<'_, R>) -> Option<R>;
}

/// Reads one row as what it stands for.
pub(super) fn read<T: DeserializeOwned>(
    view: &dyn View,
    table: Table,
    key: &str,
) -> Result<Option<T>, StoreError> {
    view.get(table, key)?.map(|value| parse(table, key, &value)).transpose()
}

pub(super) fn parse<T: DeserializeOwned>(table: Table, key: &str, value: &str) -> Result<T, StoreError> {
    serde_json::from_str(value).map_err(|error| StoreError::Damaged {
        table: table.name(),
        key: key.to_owned(),
        reason: error.to_string(),
    })
}

/// The rows whose keys begin with `prefix`, which ends in '/'.
pub(super) fn scan_prefix(
    view: &dyn View,
    table: Table,
    prefix: &str,
    pick: Pick,
) -> Result<Vec<Row>, StoreError> {
    view.scan(table, prefix, &end_of(prefix), pick)
}

/// The first key after all that begin with `prefix`.
pub(super) fn end_of(prefix: &str) -> String {
    let stem = prefix.strip_suffix('/').expect("prefixes end in a separator");
    // '0' is the character after '/'.
    format!("{stem}0")
}
