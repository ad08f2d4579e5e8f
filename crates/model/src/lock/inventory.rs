//! The table of all locks: key, lease, renewal, release, and what losing each one means.
//!
//! Lease keepers take their timings from here; `locks inventory`, `GET /locks/inventory` and the documentation print it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A lock of a control plane loop that should run on one replica at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageLock {
    /// Finds jobs whose lease has expired.
    Reconciler,
    /// Announces queued jobs again that a worker could claim.
    PendingReplayer,
    /// Finds stuck runs.
    EngineReconciler,
    /// Compares slots with the runs that hold them.
    SlotReconciler,
    /// Finds overdue retries, delays and timeouts.
    TimerReconciler,
    /// Deletes expired data.
    Retention,
    /// Writes the snapshot of the online workers.
    SnapshotWriter,
}

impl StageLock {
    pub const ALL: [Self; 7] = [
        Self::Reconciler,
        Self::PendingReplayer,
        Self::EngineReconciler,
        Self::SlotReconciler,
        Self::TimerReconciler,
        Self::Retention,
        Self::SnapshotWriter,
    ];

    /// The key after the installation's prefix.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Reconciler => "reconciler:default",
            Self::PendingReplayer => "replayer:pending",
            Self::EngineReconciler => "workflow-engine:reconciler:default",
            Self::SlotReconciler => "reconciler:slots",
            Self::TimerReconciler => "reconciler:timers",
            Self::Retention => "reconciler:retention",
            Self::SnapshotWriter => "scheduler:snapshot:writer",
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
const FAILURES_MAX: u32 = 3;

/// The default lease of a user's lock.
const USER_TTL: Duration = Duration::from_secs(30);

impl Inventory {
    #[must_use]
    pub fn new(timings: Timings) -> Self {
        Self { timings }
    }

    #[must_use]
    pub fn timings(&self) -> Timings {
        self.timings
    }

    #[must_use]
    pub fn rows(&self) -> Vec<LockRow> {
        let stages = StageLock::ALL.map(|stage| self.stage(stage));
        [self.job(), self.run(), self.admission()].into_iter().chain(stages).chain([Self::user()]).collect()
    }

    /// The lease on a job: the scheduler's while it hands the job over, then the worker's.
    #[must_use]
    pub fn job(&self) -> LockRow {
        LockRow {
            key: "scheduler:job:<job>",
            kind: LockKind::PerItem,
            ttl: self.timings.job_lease,
            renewed_every: Some(self.timings.job_lease / 3),
            failures_max: Some(FAILURES_MAX),
            release: ReleaseMode::Explicit,
            protects: "one dispatch of a step: held by the scheduler, then by the worker's own lease",
            loss: "the step goes to another worker under a larger fence, and the store rejects the late worker's calls",
        }
    }

    #[must_use]
    pub fn run(&self) -> LockRow {
        LockRow {
            key: "wf:run:lock:<run>",
            kind: LockKind::PerRun,
            ttl: self.timings.run_lease,
            renewed_every: Some(self.timings.run_lease / 3),
            failures_max: Some(FAILURES_MAX),
            release: ReleaseMode::Explicit,
            protects: "one turn of a run",
            loss: "another replica advances the run under a larger fence, and the store rejects the late commit",
        }
    }

    /// Only used by the admission strategy `lock`. A start ends long before the lease, so it is never renewed.
    #[must_use]
    pub fn admission(&self) -> LockRow {
        LockRow {
            key: "wf:run:admission:<tenant>",
            kind: LockKind::PerItem,
            ttl: self.timings.admission_lease,
            renewed_every: None,
            failures_max: None,
            release: ReleaseMode::Explicit,
            protects: "one start of a tenant at a time, if the admission strategy is `lock`",
            loss: "the next start proceeds, and the store rejects the late create by its fence",
        }
    }

    #[must_use]
    pub fn stage(&self, stage: StageLock) -> LockRow {
        let (every, protects, loss) = match stage {
            StageLock::Reconciler => (
                self.timings.reconcile_every,
                "the periodic scan for jobs with an expired lease",
                "two replicas may scan at once; each expiry is one atomic step, so nothing happens twice",
            ),
            StageLock::PendingReplayer => (
                self.timings.reconcile_every,
                "announcing queued jobs again",
                "a job may be announced twice, but is claimed once",
            ),
            StageLock::EngineReconciler => (
                self.timings.reconcile_every,
                "the periodic scan for stuck runs",
                "two replicas may scan at once; each run is advanced under its own lock and fence",
            ),
            StageLock::SlotReconciler => (
                self.timings.reconcile_every,
                "comparing slots with the runs that hold them",
                "two replicas may compare at once; each repair is one atomic step that checks again",
            ),
            StageLock::TimerReconciler => (
                self.timings.reconcile_every,
                "the periodic scan for overdue retries, delays and timeouts",
                "two replicas may scan at once; a run that is marked ready twice is advanced once",
            ),
            StageLock::Retention => (
                self.timings.reconcile_every,
                "deleting expired data",
                "two replicas may delete at once; each row is deleted once",
            ),
            StageLock::SnapshotWriter => (
                self.timings.snapshot_every,
                "the snapshot of the workers",
                "the store rejects the late snapshot by its fence; another replica writes one within the lease",
            ),
        };
        LockRow {
            key: stage.key(),
            kind: LockKind::PerLoop,
            ttl: every * 2,
            renewed_every: Some(every),
            failures_max: None,
            release: ReleaseMode::Expiry,
            protects,
            loss,
        }
    }

    #[must_use]
    pub fn user() -> LockRow {
        LockRow {
            key: "lock:{<tenant>}:<resource>",
            kind: LockKind::User,
            ttl: USER_TTL,
            renewed_every: Some(USER_TTL / 3),
            failures_max: Some(FAILURES_MAX),
            release: ReleaseMode::Explicit,
            protects: "whatever its users agree on",
            loss: "the next waiter gets it with a larger fence, and late writes are rejected wherever fences are compared",
        }
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
