//! Ordered tables of text, and how a decision reads and changes them.

use std::future::Future;

use interlock_model::{TenantId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::rows;
use super::store::Decide;
use crate::{Page, PageRequest, StoreError};

macro_rules! tables {
    ($($(#[$doc:meta])* $table:ident = $name:literal,)*) => {
        /// A table: keys in byte order, values in JSON.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Table {
            $($(#[$doc])* $table,)*
        }

        impl Table {
            pub const ALL: &[Self] = &[$(Self::$table),*];

            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$table => $name,)*
                }
            }
        }
    };
}

tables! {
    /// `tenant` → limits, live runs, last fence.
    Tenants = "tenants",
    /// `limits` → the system's limits.
    System = "system",
    /// `tenant/workflow` → its current version, or that it is deleted.
    WorkflowHeads = "workflow_heads",
    /// `tenant/time/workflow` for each workflow that is not deleted, by when it was last saved.
    WorkflowListing = "workflow_listing",
    /// `tenant/workflow/version` → the document.
    WorkflowVersions = "workflow_versions",
    /// `tenant/workflow/key` → the run that an idempotency key started.
    IdempotencyKeys = "idempotency_keys",
    /// `tenant/run` → what was asked.
    Starts = "starts",
    /// `tenant/run` → the state of the run.
    Heads = "heads",
    /// `tenant/run/step` → the state of the step.
    Steps = "steps",
    /// `tenant/run` for each run that was deleted: a start whose reply was lost must not bring it back.
    DeletedRuns = "deleted_runs",
    /// `tenant/run` for each run that holds a slot.
    Active = "active",
    /// `tenant/run` for each run that has something to take into account.
    Ready = "ready",
    /// `tenant/run/number` → what a run must take into account.
    Inbox = "inbox",
    /// `tenant/run` → who advances the run now.
    RunLeases = "run_leases",
    /// `tenant/time/run` for each run to which something happens by itself.
    Timers = "timers",
    /// `tenant/run/number` → what happened.
    Timeline = "timeline",
    /// `tenant/job` → the job.
    Jobs = "jobs",
    /// `tenant/time/job` for each job, by when it was dispatched.
    JobListing = "job_listing",
    /// `tenant/topic/time/job`, or `tenant/topic+kind/time/job`, for each job that waits for a worker.
    Queue = "queue",
    /// `tenant/job` → the worker's lease.
    JobLeases = "job_leases",
    /// `tenant/time/job` for each lease, by when it expires.
    JobExpiries = "job_expiries",
    /// `tenant/job` → a deferred result.
    PutOff = "put_off",
    /// `tenant/time/job` for each of them, by when it is due.
    PutOffDue = "put_off_due",
    /// `tenant/job` → why a policy holds the job.
    Held = "held",
    /// `tenant/time/job` for each of them that does not wait for an approval, by when it is due.
    HeldDue = "held_due",
    /// `tenant/rule` → how many jobs a rule of the dispatch policy has released in its period.
    Throttles = "throttles",
    /// `tenant/job` → the approval.
    Approvals = "approvals",
    /// `tenant/job` for each approval that is open.
    OpenApprovals = "open_approvals",
    /// `tenant/job` → the dead letter.
    DeadLetters = "dead_letters",
    /// `tenant/worker` → when and how it was last seen.
    Workers = "workers",
    /// `key` → the API key.
    ApiKeys = "api_keys",
    /// `worker` → a worker on NATS, as it was last heard.
    Registry = "registry",
    /// `home/lock` → its holders. A home is a tenant; a lock of the control plane itself has one of its own.
    Locks = "locks",
    /// `home/lock/place` → a waiter.
    LockLine = "lock_line",
    /// `home/lock/number` → what happened to it.
    LockHistory = "lock_history",
    /// `home/time/lock` for each lock that is held, by since when.
    LockListing = "lock_listing",
    /// `home/time/lock` for each lock, by when all of its leases and waiters have expired, or it can be forgotten.
    LockSweeps = "lock_sweeps",
    /// `home` → how many locks it holds and waits for.
    LockTallies = "lock_tallies",
    /// `name` → a document about the installation, with its version.
    Documents = "documents",
    /// `rollout/instance` → what a process has counted of a rollout.
    Figures = "figures",
}

/// Which rows of a range, and from which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// At most this many from the beginning, in order.
    First(usize),
    /// At most this many from the end, backwards.
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

    /// Writes a row without a value.
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

/// What comes of deciding a verb.
pub type Decided<R> = Result<Decision<R>, StoreError>;

impl<R> Decision<R> {
    /// An answer that changes nothing.
    pub fn unchanged(answer: R) -> Self {
        Self { answer, changes: Changes::default() }
    }

    /// The same decision with its answer turned into something else.
    pub fn map<T>(self, turn: impl FnOnce(R) -> T) -> Decision<T> {
        Decision { answer: turn(self.answer), changes: self.changes }
    }
}

/// Keeps tables and runs decisions on them, one after the other.
pub trait Executor: Send + Sync + 'static {
    /// Runs `decide` on the latest tables and applies its changes, durably, before it answers. An error changes
    /// nothing.
    fn write<R: Send + 'static>(
        &self,
        action: &'static str,
        decide: impl FnOnce(&dyn View, Timestamp) -> Decided<R> + Send + 'static,
    ) -> impl Future<Output = Result<R, StoreError>> + Send;

    /// Looks at tables that are at least as new as every answer given before.
    fn read<R: Send + 'static>(
        &self,
        action: &'static str,
        look: impl FnOnce(&dyn View, Timestamp) -> Result<R, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<R, StoreError>> + Send;

    /// Decides `verb` at once on what is held in memory. No answer if that is not enough, or if the decision would
    /// change something; then [`write`](Self::write) decides.
    fn peek<V: Decide>(&self, verb: &V) -> Option<V::Answer>;
}

/// Reads and parses one row.
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

/// The number at the end of the last key that begins with `prefix`; 0 if there is none.
pub(super) fn last_number(view: &dyn View, table: Table, prefix: &str) -> Result<u64, StoreError> {
    let last = scan_prefix(view, table, prefix, Pick::Last(1))?;
    Ok(last.first().and_then(|row| rows::last_part(&row.key).parse().ok()).unwrap_or(0))
}

/// Where a page of a list that goes backwards, newest first, begins: before the last item of the page before.
pub(super) fn start_of_page(tenant: &TenantId, page: &PageRequest) -> String {
    match &page.after {
        Some(after) => format!("{tenant}/{after}"),
        None => end_of(&rows::of_tenant(tenant)),
    }
}

/// A page of the items that the keys of the tenant's rows name, from the last to the first.
pub(super) fn newest_page<T>(
    view: &dyn View,
    table: Table,
    tenant: &TenantId,
    page: &PageRequest,
    item: impl Fn(&str) -> Result<Option<T>, StoreError>,
) -> Result<Page<T>, StoreError> {
    let (from, until) = (rows::of_tenant(tenant), start_of_page(tenant, page));
    let mut rows = view.scan(table, &from, &until, Pick::Last(page.limit.saturating_add(1)))?;
    let has_more = rows.len() > page.limit;
    rows.truncate(page.limit);
    let next =
        rows.last().filter(|_| has_more).and_then(|row| rows::after_tenant(&row.key)).map(str::to_owned);
    let items = rows.iter().filter_map(|row| item(&row.key).transpose()).collect::<Result<_, _>>()?;
    Ok(Page { items, next })
}
