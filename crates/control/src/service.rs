//! The composition root: builds the stages of one process and runs their loops.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use interlock_backend::inspection::Probe;
use interlock_backend::mailbox::Mailbox;
use interlock_backend::{Bus, Store};
use interlock_model::contention::{AdmissionStrategy, RunStrategy};
use interlock_model::lock::StageLock;
use interlock_model::{Clock, InstanceId};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::admission::{Admission, AdmitUnderLock};
use crate::appointments::Appointments;
use crate::budgets::Budgets;
use crate::children::{self, Children};
use crate::contention::{Contention, Tunings};
use crate::counts::Counts;
use crate::dead_letters::DeadLetters;
use crate::definitions::{self, Definitions};
use crate::doctor::Doctor;
use crate::documents::Documents;
use crate::engine::{self, Engine};
use crate::events::Events;
use crate::identity::Identity;
use crate::installation::{self, Installation};
use crate::limit_books::LimitBooks;
use crate::limits::Limits;
use crate::lock_strategies::{ResultsUnderLock, StartsUnderLock};
use crate::locks::Locks;
use crate::policy::{self, Policy};
use crate::process::Process;
use crate::reconcile::{self, Reconcilers, ticking};
use crate::results::{DeliverUnderLock, Results};
use crate::rollouts::{self, Rollouts};
use crate::run_deletion::RunDeletion;
use crate::run_ends::{self, RunEnds};
use crate::runs::Runs;
use crate::settings::Settings;
use crate::system_limits::{self, SystemLimits};
use crate::traces::Traces;
use crate::why::Why;
use crate::worker_directory::WorkerDirectory;
use crate::workers::Workers;

/// The stages of one process, each given what it needs and nothing else.
pub struct Control {
    pub process: Arc<Process>,
    pub contention: Arc<Contention>,
    pub worker_directory: Arc<WorkerDirectory>,
    pub why: Arc<Why>,
    pub admission: Arc<Admission>,
    pub results: Arc<Results>,
    pub locks: Arc<Locks>,
    pub budgets: Arc<Budgets>,
    pub policy: Arc<Policy>,
    pub children: Arc<Children>,
    pub reconcilers: Arc<Reconcilers>,
    pub rollouts: Arc<Rollouts>,
    pub workers: Arc<Workers>,
    pub dead_letters: Arc<DeadLetters>,
    pub documents: Arc<Documents>,
    pub limits: Arc<Limits>,
    pub runs: Arc<Runs>,
    pub events: Arc<Events>,
    pub run_ends: Arc<RunEnds>,
    pub doctor: Arc<Doctor>,
    definitions: Arc<Definitions>,
    system_limits: Arc<SystemLimits>,
    engine: Arc<Engine>,
}

/// What the control plane stands on.
pub struct Foundation {
    pub store: Store,
    pub bus: Arc<dyn Bus>,
    /// Only for ids and waiting; the store has its own clock for everything that expires.
    pub clock: Arc<dyn Clock>,
    pub identity: Identity,
    /// The name of this start of this process.
    pub instance: InstanceId,
    /// Where NATS workers find their inputs, if the backend can have such workers.
    pub mailbox: Option<Arc<dyn Mailbox>>,
    /// Checks of the servers; none where there are none.
    pub probes: Vec<Arc<dyn Probe>>,
}

impl Control {
    pub fn new(foundation: Foundation, settings: Settings) -> Arc<Self> {
        let Foundation { store, bus, clock, identity, instance, mailbox, probes } = foundation;
        let process = Arc::new(Process {
            store,
            bus,
            clock,
            identity,
            instance,
            traces: Traces::new(settings.traces),
            settings,
            wakeups: Arc::default(),
            counts: Counts::default(),
            installation: Installation::default(),
            appointments: Appointments::default(),
        });
        let settings = &process.settings;
        let tunings = Tunings { admission: settings.admission_tuning, lock_busy: settings.lock_busy_tuning };
        let contention = Arc::new(Contention::new(tunings));
        let definitions = Arc::new(Definitions::new(&process));
        let system_limits = Arc::new(SystemLimits::new(process.clone()));
        let worker_directory = Arc::new(WorkerDirectory::new(process.clone()));
        let why = Arc::new(Why::new(process.clone(), definitions.clone(), worker_directory.clone()));
        let dead_letters = Arc::new(DeadLetters { process: process.clone() });
        let workers = Arc::new(Workers { process: process.clone() });
        let deletion = RunDeletion { process: process.clone(), mailbox };

        let admission = Arc::new(admission(&process, &definitions, &contention, &system_limits));

        let engine =
            Arc::new(Engine::new(process.clone(), definitions.clone(), contention.clone(), why.clone()));
        // Deferred results remain in the store when the strategy changes, so they are always delivered again.
        let results_under_lock = Arc::new(ResultsUnderLock::new(
            process.clone(),
            contention.clone(),
            engine.clone(),
            dead_letters.clone(),
        ));
        let under_lock: Option<Arc<dyn DeliverUnderLock>> = match settings.run_strategy {
            RunStrategy::Inbox => None,
            RunStrategy::Lock => Some(results_under_lock.clone()),
        };
        let reconcilers = Arc::new(Reconcilers::new(process.clone(), deletion.clone(), results_under_lock));
        Arc::new(Self {
            results: Arc::new(Results { process: process.clone(), under_lock }),
            locks: Arc::new(Locks { process: process.clone() }),
            budgets: Arc::new(Budgets { process: process.clone() }),
            policy: Arc::new(Policy::new(process.clone())),
            children: Arc::new(Children::of(&process, &definitions, &admission.limit_books)),
            rollouts: Arc::new(Rollouts::new(process.clone(), contention.clone())),
            documents: Arc::new(Documents { process: process.clone(), system: system_limits.clone() }),
            limits: Arc::new(Limits { process: process.clone(), system: system_limits.clone() }),
            events: Arc::new(Events::of(&process, &engine, &definitions)),
            runs: Arc::new(Runs { process: process.clone(), engine: engine.clone(), deletion }),
            run_ends: Arc::new(RunEnds::new(&process)),
            doctor: Arc::new(Doctor::new(process.clone(), workers.clone(), reconcilers.clone(), probes)),
            process,
            contention,
            worker_directory,
            why,
            admission,
            reconcilers,
            workers,
            dead_letters,
            definitions,
            system_limits,
            engine,
        })
    }
}

fn admission(
    process: &Arc<Process>,
    definitions: &Arc<Definitions>,
    contention: &Arc<Contention>,
    system_limits: &Arc<SystemLimits>,
) -> Admission {
    let under_lock: Option<Arc<dyn AdmitUnderLock>> = match process.settings.admission_strategy {
        AdmissionStrategy::Atomic => None,
        AdmissionStrategy::Lock => Some(Arc::new(StartsUnderLock::new(process.clone(), contention.clone()))),
    };
    let limit_books = Arc::new(LimitBooks::new(process, system_limits.clone()));
    Admission { process: process.clone(), definitions: definitions.clone(), limit_books, under_lock }
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

/// The loops of the stages, as one task that ends after `shutdown` when all of them have.
pub fn run_stages(
    control: Arc<Control>,
    roles: Roles,
    shutdown: CancellationToken,
) -> BoxFuture<'static, ()> {
    // Boxed, so that it is compiled here and not wherever it is awaited.
    Box::pin(async move {
        let mut stages = JoinSet::new();
        let process = &control.process;
        stages.spawn(process.wakeups.clone().listen(process.bus.clone(), shutdown.clone()));
        stages.spawn(installation::follow(process.clone(), shutdown.clone()));
        stages.spawn(definitions::follow(control.definitions.clone(), shutdown.clone()));
        stages.spawn(run_ends::watch(control.run_ends.clone(), shutdown.clone()));
        stages.spawn(rollouts::follow::run(control.rollouts.clone(), shutdown.clone()));
        let limits = control.system_limits.clone();
        stages.spawn(system_limits::follow(limits, roles.scheduler, shutdown.clone()));
        if roles.engine {
            stages.spawn(engine::run(control.engine.clone(), !roles.scheduler, shutdown.clone()));
            for stage in ENGINE_LOOPS {
                stages.spawn(ticking::run(control.reconcilers.clone(), stage, shutdown.clone()));
            }
        }
        if roles.scheduler {
            for stage in SCHEDULER_LOOPS {
                stages.spawn(ticking::run(control.reconcilers.clone(), stage, shutdown.clone()));
            }
            stages.spawn(policy::run(control.policy.clone(), shutdown.clone()));
            stages.spawn(children::run(control.children.clone(), shutdown.clone()));
            stages.spawn(reconcile::run(control.reconcilers.clone(), shutdown));
        }
        while let Some(ended) = stages.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "stage panicked");
            }
        }
    })
}
