//! The table of all locks: key, lease, renewal, release, and what losing each one means.
//!
//! Lease keepers take their timings from here; `locks inventory`, `GET /locks/inventory` and the documentation print it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

crate::named_enum! {
    /// A lock of a control plane loop that should run on one replica at a time.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum StageLock {
        /// Finds jobs whose lease has expired.
        Reconciler = "reconciler",
        /// Announces queued jobs again that a worker could claim.
        PendingReplayer = "pending_replayer",
        /// Finds stuck runs.
        EngineReconciler = "engine_reconciler",
        /// Compares slots with the runs that hold them.
        SlotReconciler = "slot_reconciler",
        /// Finds overdue retries, delays and timeouts.
        TimerReconciler = "timer_reconciler",
        /// Deletes expired data.
        Retention = "retention",
        /// Writes the snapshot of the online workers.
        SnapshotWriter = "snapshot_writer",
    }
}

impl StageLock {
    /// The key after the installation's prefix.
    pub fn key(self) -> &'static str {
        self.texts().0
    }

    /// The key, what the lock protects, and what losing it means.
    fn texts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Reconciler => (
                "reconciler:default",
                "the periodic scan for jobs with an expired lease",
                "two replicas may scan at once; each expiry is one atomic step, so nothing happens twice",
            ),
            Self::PendingReplayer => (
                "replayer:pending",
                "announcing queued jobs again",
                "a job may be announced twice, but is claimed once",
            ),
            Self::EngineReconciler => (
                "workflow-engine:reconciler:default",
                "the periodic scan for stuck runs",
                "two replicas may scan at once; each run is advanced under its own lock and fence",
            ),
            Self::SlotReconciler => (
                "reconciler:slots",
                "comparing slots with the runs that hold them",
                "two replicas may compare at once; each repair is one atomic step that checks again",
            ),
            Self::TimerReconciler => (
                "reconciler:timers",
                "the periodic scan for overdue retries, delays and timeouts",
                "two replicas may scan at once; a run that is marked ready twice is advanced once",
            ),
            Self::Retention => (
                "reconciler:retention",
                "deleting expired data",
                "two replicas may delete at once; each row is deleted once",
            ),
            Self::SnapshotWriter => (
                "scheduler:snapshot:writer",
                "the snapshot of the workers",
                "the store rejects the late snapshot by its fence; another replica writes one within the lease",
            ),
        }
    }
}

/// What a lock is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LockKind {
    /// One item of work, released when it is done.
    PerItem,
    /// A loop that runs on one replica at a time.
    PerLoop,
    /// A run, among the tasks of a process and among the replicas.
    PerRun,
    /// A lock that users acquire.
    User,
}

/// How a lock becomes free while its holder is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseMode {
    /// The holder releases it: compare the token, then delete.
    Explicit,
    /// Never released: it expires unless the same holder ticks again.
    Expiry,
}

/// One lock, or one family of locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRow {
    /// The key after the prefix; `<…>` is a placeholder.
    pub key: &'static str,
    pub kind: LockKind,
    pub ttl: Duration,
    pub renewed_every: Option<Duration>,
    /// Consecutive failed renewals that stop the work, unless the deadline stops it earlier.
    pub failures_max: Option<u32>,
    pub release: ReleaseMode,
    pub protects: &'static str,
    pub loss: &'static str,
}

impl LockRow {
    /// A lock that its holder renews until it releases it. `texts` are what it protects and what losing it means.
    fn renewed(
        key: &'static str,
        kind: LockKind,
        ttl: Duration,
        texts: (&'static str, &'static str),
    ) -> Self {
        let (protects, loss) = texts;
        Self {
            key,
            kind,
            ttl,
            renewed_every: Some(ttl / 3),
            failures_max: Some(FAILURES_MAX),
            release: ReleaseMode::Explicit,
            protects,
            loss,
        }
    }
}

/// The timings that an installation can configure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// The period of the reconciler loops.
    pub reconcile_every: Duration,
    /// The period of the worker snapshot.
    pub snapshot_every: Duration,
    pub run_lease: Duration,
    /// How long the scheduler may hold a job while it hands it to a worker.
    pub job_lease: Duration,
    /// How long a start may hold the tenant's admission lock.
    pub admission_lease: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            reconcile_every: Duration::from_secs(30),
            snapshot_every: Duration::from_secs(5),
            run_lease: Duration::from_secs(30),
            job_lease: Duration::from_mins(1),
            admission_lease: Duration::from_secs(10),
        }
    }
}

/// All locks, with the timings of one installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inventory {
    timings: Timings,
}

/// Consecutive failed renewals after which a holder gives up.
pub const FAILURES_MAX: u32 = 3;

/// The default lease of a user's lock.
const USER_TTL: Duration = Duration::from_secs(30);

impl Inventory {
    pub fn new(timings: Timings) -> Self {
        Self { timings }
    }

    pub fn timings(&self) -> Timings {
        self.timings
    }

    pub fn rows(&self) -> Vec<LockRow> {
        let stages = StageLock::ALL.map(|stage| self.stage(stage));
        [self.job(), self.run(), self.admission()].into_iter().chain(stages).chain([Self::user()]).collect()
    }

    /// The lease on a job: the scheduler's while it hands the job over, then the worker's.
    pub fn job(&self) -> LockRow {
        let texts = (
            "one dispatch of a step: held by the scheduler, then by the worker's own lease",
            "the step goes to another worker under a larger fence, and the store rejects the late worker's calls",
        );
        LockRow::renewed("scheduler:job:<job>", LockKind::PerItem, self.timings.job_lease, texts)
    }

    pub fn run(&self) -> LockRow {
        let texts = (
            "one turn of a run",
            "another replica advances the run under a larger fence, and the store rejects the late commit",
        );
        LockRow::renewed("wf:run:lock:<run>", LockKind::PerRun, self.timings.run_lease, texts)
    }

    /// Only used by the admission strategy `lock`. A start ends long before the lease, so it is never renewed.
    pub fn admission(&self) -> LockRow {
        let texts = (
            "one start of a tenant at a time, if the admission strategy is `lock`",
            "the next start proceeds, and the store rejects the late create by its fence",
        );
        let ttl = self.timings.admission_lease;
        let row = LockRow::renewed("wf:run:admission:<tenant>", LockKind::PerItem, ttl, texts);
        LockRow { renewed_every: None, failures_max: None, ..row }
    }

    pub fn stage(&self, stage: StageLock) -> LockRow {
        let (key, protects, loss) = stage.texts();
        let is_snapshot = stage == StageLock::SnapshotWriter;
        let every = if is_snapshot { self.timings.snapshot_every } else { self.timings.reconcile_every };
        LockRow {
            renewed_every: Some(every),
            failures_max: None,
            release: ReleaseMode::Expiry,
            ..LockRow::renewed(key, LockKind::PerLoop, every * 2, (protects, loss))
        }
    }

    pub fn user() -> LockRow {
        let texts = (
            "whatever its users agree on",
            "the next waiter gets it with a larger fence, and late writes are rejected wherever fences are compared",
        );
        LockRow::renewed("lock:{<tenant>}:<resource>", LockKind::User, USER_TTL, texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_is_renewed_well_before_it_expires() {
        for row in Inventory::default().rows() {
            let Some(every) = row.renewed_every else { continue };
            assert!(
                every * 2 <= row.ttl,
                "{}: renewed every {every:?}, expires after {:?}",
                row.key,
                row.ttl
            );
        }
    }

    #[test]
    fn the_defaults_are_as_documented() {
        let inventory = Inventory::default();
        let seconds = |row: LockRow| (row.ttl.as_secs(), row.renewed_every.map(|every| every.as_secs()));
        assert_eq!(seconds(inventory.job()), (60, Some(20)));
        assert_eq!(seconds(inventory.run()), (30, Some(10)));
        assert_eq!(seconds(inventory.admission()), (10, None));
        assert_eq!(seconds(inventory.stage(StageLock::Reconciler)), (60, Some(30)));
        assert_eq!(seconds(inventory.stage(StageLock::SnapshotWriter)), (10, Some(5)));
        assert_eq!(inventory.job().failures_max, Some(3));
    }

    #[test]
    fn no_two_locks_share_a_key() {
        let keys: std::collections::BTreeSet<_> =
            Inventory::default().rows().iter().map(|row| row.key).collect();
        assert_eq!(keys.len(), Inventory::default().rows().len());
    }
}
