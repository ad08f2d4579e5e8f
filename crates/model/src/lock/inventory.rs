//! The one table of every lock: its key, how long it holds, how it is renewed and given back, what its loss means.
//!
//! Guards take their numbers from here, and `locks inventory`, `GET /locks/inventory` and the documentation print it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A lock that stages of the control plane take, for a loop that one replica at a time should run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageLock {
    /// Looks for jobs whose lease has run out.
    Reconciler,
    /// Announces jobs again that wait although a worker could have them.
    PendingReplayer,
    /// Looks for runs that stand still.
    EngineReconciler,
    /// Compares slots with the runs that hold them.
    SlotReconciler,
    /// Looks for retries, delays and time-outs whose time has passed.
    TimerReconciler,
    /// Removes what nobody needs any more.
    Retention,
    /// Writes down which workers are there.
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

    /// What follows the installation's prefix in its key.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockKind {
    /// One item of work, given back when it is done.
    PerItem,
    /// A loop that one replica at a time runs.
    PerLoop,
    /// A run: first among the tasks of a process, then among the replicas.
    PerRun,
    /// What users take.
    User,
}

/// How a lock comes free while its holder lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseMode {
    /// Its holder gives it back: compare the token, then delete.
    Explicit,
    /// Never given back: held for its time, and longer if the same holder ticks again.
    Expiry,
}

/// One lock, or one family of locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRow {
    /// What follows the prefix; `<…>` stands for a name.
    pub key: &'static str,
    pub kind: LockKind,
    pub ttl: Duration,
    pub renewed_every: Option<Duration>,
    /// Renewals that may fail in a row before the work is told to stop. The deadline may tell it earlier.
    pub failures_max: Option<u32>,
    pub release: ReleaseMode,
    pub protects: &'static str,
    pub loss: &'static str,
}

/// What an installation may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// How often each reconciling loop ticks.
    pub reconcile_every: Duration,
    /// How often the snapshot of the workers is written.
    pub snapshot_every: Duration,
    pub run_lease: Duration,
    /// How long the scheduler has a job in hand before it is with a worker.
    pub job_lease: Duration,
    /// How long a start has the tenant's admission lock, where starts wait for one.
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

/// Every lock, with the numbers of one installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inventory {
    timings: Timings,
}

/// Renewals that fail in a row until a holder gives up, where the deadline has not told it before.
const FAILURES_MAX: u32 = 3;

/// The lease of users' locks, where they do not say.
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
            protects: "one dispatch of a step: first in the scheduler's hands, then under its worker's own lease",
            loss: "the step goes to another worker under a larger fence, and every call of the late one is refused",
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
            loss: "another replica advances the run under a larger fence, and the late commit is refused",
        }
    }

    /// Only taken where the admission strategy is `lock`. A start is over long before the lease is, so nobody renews it.
    #[must_use]
    pub fn admission(&self) -> LockRow {
        LockRow {
            key: "wf:run:admission:<tenant>",
            kind: LockKind::PerItem,
            ttl: self.timings.admission_lease,
            renewed_every: None,
            failures_max: None,
            release: ReleaseMode::Explicit,
            protects: "one start at a time of a tenant, where the admission strategy is `lock`",
            loss: "the next start goes ahead, and the late one's create is refused by its fence",
        }
    }

    #[must_use]
    pub fn stage(&self, stage: StageLock) -> LockRow {
        let (every, protects, loss) = match stage {
            StageLock::Reconciler => (
                self.timings.reconcile_every,
                "the slow look for jobs whose lease has run out",
                "two replicas look in one window; each expiry is one atomic step, so nothing happens twice",
            ),
            StageLock::PendingReplayer => (
                self.timings.reconcile_every,
                "announcing jobs again that wait for a worker",
                "a job may be announced twice; it is claimed once",
            ),
            StageLock::EngineReconciler => (
                self.timings.reconcile_every,
                "the slow look for runs that stand still",
                "two replicas look in one window; each run is advanced under its own lock and fence",
            ),
            StageLock::SlotReconciler => (
                self.timings.reconcile_every,
                "comparing slots with the runs that hold them",
                "two replicas compare in one window; each correction is one atomic step that looks again",
            ),
            StageLock::TimerReconciler => (
                self.timings.reconcile_every,
                "the slow look for retries, delays and time-outs whose time has passed",
                "two replicas look in one window; a run that is made ready twice is advanced once",
            ),
            StageLock::Retention => (
                self.timings.reconcile_every,
                "removing what nobody needs any more",
                "two replicas remove in one window; what is gone is gone once",
            ),
            StageLock::SnapshotWriter => (
                self.timings.snapshot_every,
                "the snapshot of the workers",
                "the late writer's snapshot is refused by its fence; another replica writes within the lease",
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
            loss: "the next in line gets it with a larger fence, and what the late holder writes is refused where \
                   fences are compared",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_is_renewed_well_before_it_ends() {
        for row in Inventory::default().rows() {
            let Some(every) = row.renewed_every else { continue };
            assert!(every * 2 <= row.ttl, "{}: renewed every {every:?}, ends after {:?}", row.key, row.ttl);
        }
    }

    #[test]
    fn the_documented_numbers_are_the_defaults() {
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
