//! What all stages of one process share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use interlock_backend::inspection::Probe;
use interlock_backend::mailbox::Mailbox;
use interlock_backend::{Bus, Store, Wake};
use interlock_model::lock::StageLock;
use interlock_model::{Clock, InstanceId, RunId};
use tokio::time::Instant;

use crate::admission::Cleanups;
use crate::contention::{Configured, Contention};
use crate::counts::{Counted, Counts};
use crate::definitions::Definitions;
use crate::dispatch_policy;
use crate::engine::RunCache;
use crate::identity::Identity;
use crate::locks::RunLocks;
use crate::reconcile::{Appointments, Walks, ticking};
use crate::settings::Settings;
use crate::wakeups::Wakeups;

/// The control plane of one process: the store and the bus, with what is kept in memory beside them.
pub struct Control {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) identity: Identity,
    pub(crate) mailbox: Option<Arc<dyn Mailbox>>,
    pub(crate) probes: Vec<Arc<dyn Probe>>,
    /// By the clock that waits go by.
    pub(crate) started_at: Instant,
    pub(crate) settings: Settings,
    pub(crate) definitions: Definitions,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) cached_runs: RunCache,
    pub(crate) run_locks: RunLocks,
    pub(crate) contention: Contention,
    pub(crate) cleanups: Cleanups,
    pub(crate) put_off_results: Appointments,
    pub(crate) slot_walks: Walks<RunId>,
    pub(crate) key_walks: Walks<String>,
    pub(crate) dispatch_policy: dispatch_policy::State,
    /// Unique to this start of this process.
    pub(crate) instance: InstanceId,
    /// Results from the bus that came under a fence that counts no more.
    pub(crate) results_refused: AtomicU64,
    pub(crate) counts: Counts,
}

/// What the control plane stands on.
pub struct Foundation {
    pub store: Arc<dyn Store>,
    pub bus: Arc<dyn Bus>,
    /// Only for ids and waiting; the store has its own clock for everything that expires.
    pub clock: Arc<dyn Clock>,
    pub identity: Identity,
    /// The name of this start of this process.
    pub instance: InstanceId,
    /// Where workers on the bus find their inputs, if the backend can have such workers.
    pub mailbox: Option<Arc<dyn Mailbox>>,
    /// What looks at the servers beneath; none where there are none.
    pub probes: Vec<Arc<dyn Probe>>,
}

impl Control {
    #[must_use]
    pub fn new(foundation: Foundation, settings: Settings) -> Arc<Self> {
        let Foundation { store, bus, clock, identity, instance, mailbox, probes } = foundation;
        Arc::new(Self {
            definitions: Definitions::new(settings.definitions_max),
            wakeups: Arc::new(Wakeups::default()),
            cached_runs: RunCache::new(settings.cached_runs_max),
            run_locks: RunLocks::default(),
            contention: Contention::new(
                (settings.admission_strategy, settings.run_strategy),
                Configured { admission: settings.admission_tuning, lock_busy: settings.lock_busy_tuning },
            ),
            cleanups: Cleanups::default(),
            put_off_results: Appointments::default(),
            slot_walks: Walks::default(),
            key_walks: Walks::default(),
            dispatch_policy: dispatch_policy::State::of(&settings.dispatch_policy),
            instance,
            results_refused: AtomicU64::new(0),
            counts: Counts::default(),
            store,
            bus,
            clock,
            identity,
            mailbox,
            probes,
            started_at: Instant::now(),
            settings,
        })
    }

    /// The store, for looking. Changes go through the stages.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    #[must_use]
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Which strategies and tunings are in force, and what is counted of them.
    #[must_use]
    pub fn contention(&self) -> &Contention {
        &self.contention
    }

    /// What the stages have counted.
    #[must_use]
    pub fn counted(&self) -> Counted {
        let counted = self.counts.counted();
        Counted { orphans_replayed: counted.orphans_replayed + self.wakeups.orphans.count(), ..counted }
    }

    /// How the processes wake each other.
    #[must_use]
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.bus
    }

    /// Who waits for what in this process.
    #[must_use]
    pub fn wakeups(&self) -> &Arc<Wakeups> {
        &self.wakeups
    }

    pub(crate) fn wake(&self, wake: Wake) {
        self.bus.wake(wake);
    }
}

/// Which stages a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    pub engine: bool,
    pub scheduler: bool,
}

/// The loops of each role.
const ENGINE_LOOPS: [StageLock; 2] = [StageLock::EngineReconciler, StageLock::TimerReconciler];
const SCHEDULER_LOOPS: [StageLock; 5] = [
    StageLock::Reconciler,
    StageLock::PendingReplayer,
    StageLock::SlotReconciler,
    StageLock::Retention,
    StageLock::SnapshotWriter,
];

/// The stages that run by themselves, as one task that ends after `shutdown` when all of them have.
pub async fn run_stages(control: Arc<Control>, roles: Roles, shutdown: tokio_util::sync::CancellationToken) {
    let mut stages = tokio::task::JoinSet::new();
    stages.spawn(control.wakeups.clone().listen(control.bus.clone(), shutdown.clone()));
    stages.spawn(crate::definitions::follow(control.clone(), shutdown.clone()));
    stages.spawn(crate::contention::follow(control.clone(), shutdown.clone()));
    if roles.engine {
        stages.spawn(crate::engine::run(control.clone(), !roles.scheduler, shutdown.clone()));
        for stage in ENGINE_LOOPS {
            stages.spawn(ticking::run(control.clone(), stage, shutdown.clone()));
        }
    }
    if roles.scheduler {
        for stage in SCHEDULER_LOOPS {
            stages.spawn(ticking::run(control.clone(), stage, shutdown.clone()));
        }
        stages.spawn(dispatch_policy::run(control.clone(), shutdown.clone()));
        stages.spawn(crate::reconcile::run(control, shutdown));
    }
    while let Some(ended) = stages.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a stage ended by a bug");
        }
    }
}
