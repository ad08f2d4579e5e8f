//! One seed from its first call to its verdict.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use interlock_backend::clock::RuntimeClock;
use interlock_backend::faulty::{Faults, FaultyStore};
use interlock_backend::local::LocalStore;
use interlock_backend::tenants::LimitScope;
use interlock_backend::verbs::{SaveBudget, SaveLimit, SaveWorkflow, SetLimits};
use interlock_backend::{Bus, Store, StoreError};
use interlock_control::identity::Identity;
use interlock_control::service::Foundation;
use interlock_model::Timestamp;
use interlock_model::approval::{Decision, Verdict};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::bus::LossyBus;
use crate::checker::{Checker, OPEN, Shared};
use crate::clients::Client;
use crate::dice::{Actor, Dice};
use crate::instance::Instance;
use crate::lockers::Locker;
use crate::log::Log;
use crate::operators::{self, Operator};
use crate::planted::PlantedTables;
use crate::scenario::Scenario;
use crate::senders::Sender;
use crate::spenders::{self, Spender};
use crate::tables::WatchedTables;
use crate::watched::{Fuse, SimulatedStore, WatchedStore};
use crate::workers::Worker;
use crate::workflows;
use crate::{Bug, Failure, Invariant, Summary};

/// Hours since 1970: some moment; every simulation begins at the same one.
const EPOCH: Duration = Duration::from_hours(500_000);

/// How long every run may take to end once nothing goes wrong any more. The slowest workflow, a lease that must run
/// out and a lost wake-up or two for each of its steps fit in several times.
const CALM_MAX: Duration = Duration::from_secs(90);

/// A simulation in which clients stop acting only after an hour has a bug itself.
const CHAOS_MAX: Duration = Duration::from_hours(1);

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) scenario: Scenario,
    pub(crate) checker: Shared,
    store: Arc<SimulatedStore>,
    clock: RuntimeClock,
    bus: Arc<LossyBus>,
    slots: Mutex<Vec<Slot>>,
    is_calm: AtomicBool,
    crashes: Mutex<Dice>,
    blown: mpsc::UnboundedSender<usize>,
}

/// A place for an instance: crashed ones are replaced.
#[derive(Default)]
struct Slot {
    starts: u64,
    instance: Option<Arc<Instance>>,
}

/// Runs one seed. Returns the verdict, and the log if it was kept.
pub(crate) fn run(seed: u64, planted: Option<Bug>, log: Log) -> (Result<Summary, Failure>, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without sockets needs nothing").block_on(async move {
        let clock = RuntimeClock::starting_at(Timestamp::ZERO + EPOCH);
        let checker = Shared::new(Checker::new(seed, planted, clock, log));
        let failed = checker.failed.clone();
        if let Some(Err(error)) = failed.run_until_cancelled(play(seed, planted, clock, &checker)).await {
            checker.with(|checker| {
                checker.violate(Invariant::NothingBreaks, format!("the stage fell: {error}"));
            });
        }
        checker.with(|checker| (checker.verdict(), checker.log.take_lines()))
    })
}

async fn play(
    seed: u64,
    planted: Option<Bug>,
    clock: RuntimeClock,
    checker: &Shared,
) -> Result<(), StoreError> {
    let tables = WatchedTables::new(Arc::new(clock), checker.clone());
    let store = Arc::new(LocalStore::new(PlantedTables::new(tables, planted)));
    let scenario = Scenario::of(seed, planted);
    let (blown, deaths) = mpsc::unbounded_channel();
    let world = Arc::new(World {
        seed,
        bus: Arc::new(LossyBus::new(seed, scenario.wakeups_lost, checker.clone())),
        scenario,
        checker: checker.clone(),
        store,
        clock,
        slots: Mutex::default(),
        is_calm: AtomicBool::new(false),
        crashes: Mutex::new(Dice::of(Actor::Crashes, seed)),
        blown,
    });
    world.prepare().await?;
    let mut background = JoinSet::new();
    background.spawn(world.clone().bury_the_dead(deaths));
    background.spawn(world.clone().kill_at_random_moments());
    for number in 0..world.scenario.workers {
        background.spawn(Worker::new(world.clone(), number).work());
    }
    let mut clients = JoinSet::new();
    for number in 0..world.scenario.clients {
        clients.spawn(Client::new(world.clone(), number).act());
    }
    for number in 0..world.scenario.operators {
        clients.spawn(Operator::new(world.clone(), number).act());
    }
    let mut lockers = JoinSet::new();
    for number in 0..world.scenario.lockers {
        lockers.spawn(Locker::new(world.clone(), number).act());
    }
    for number in 0..world.scenario.spenders {
        clients.spawn(Spender::new(world.clone(), number).act());
    }
    for number in 0..world.scenario.senders {
        clients.spawn(Sender::new(world.clone(), number).act());
    }
    let mut calm = Vec::new();
    let acted = async {
        while clients.join_next().await.is_some_and(|ended| world.is_sound(&ended)) {}
        while let Some(ended) = lockers.join_next().await {
            match ended {
                Ok(locker) => calm.push(locker),
                Err(error) => drop(world.is_sound(&Err(error))),
            }
        }
    };
    if tokio::time::timeout(CHAOS_MAX, acted).await.is_err() {
        checker.with(|it| it.violate(Invariant::NothingBreaks, "a client waits for ever".to_owned()));
    }
    world.calm_down();
    background.spawn(world.clone().approve_everything());
    background.spawn(world.clone().resume_everything());
    let lockers: JoinSet<()> = calm.into_iter().map(Locker::act_in_the_calm).collect();
    lockers.join_all().await;
    world.wait_for_the_end().await
}

impl World {
    async fn prepare(self: &Arc<Self>) -> Result<(), StoreError> {
        let setup = self.watched_store("set", Fuse::new(None, 0, self.blown.clone()));
        let setup = Store::new(Arc::new(setup));
        for tenant in &self.scenario.tenants {
            let scope = LimitScope::Tenant(tenant.id.clone());
            setup.call(SetLimits { scope, limits: tenant.limits, keeps_quotas: false }).await?;
            for (number, (name, document)) in (0..).zip(&tenant.named_limits) {
                let (tenant, name, document) = (tenant.id.clone(), name.clone(), document.clone());
                let save = SaveLimit { tenant, name, document, book: number, replaces: None };
                setup.call(save).await?;
            }
            for (name, document) in spenders::documents() {
                let tenant = tenant.id.clone();
                setup.call(SaveBudget { tenant, name, document, expected: None }).await?;
            }
            for workflow in tenant.workflows.iter().chain(&tenant.nested) {
                let (tenant, id) = (tenant.id.clone(), workflow.clone());
                let document = workflows::document(id.as_str());
                setup.call(SaveWorkflow { tenant, id, document }).await?;
            }
        }
        for slot in 0..self.scenario.instances {
            self.with_slots(|slots| slots.push(Slot::default()));
            self.start_instance(slot);
        }
        Ok(())
    }

    fn watched_store(&self, name: &str, fuse: Fuse) -> WatchedStore {
        WatchedStore { name: name.to_owned(), store: self.store.clone(), checker: self.checker.clone(), fuse }
    }

    fn with_slots<R>(&self, look: impl FnOnce(&mut Vec<Slot>) -> R) -> R {
        look(&mut self.slots.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn start_instance(&self, slot: usize) {
        let start = self.with_slots(|slots| {
            slots[slot].starts += 1;
            slots[slot].starts
        });
        let fuse = Fuse::new(self.next_crash(), slot, self.blown.clone());
        let watched = Arc::new(self.watched_store(&format!("i{slot}.{start}"), fuse));
        let faults = if self.is_calm() { Faults::NONE } else { self.scenario.faults };
        let backend =
            Arc::new(FaultyStore::new(watched, Actor::Line { slot, start }.seed(self.seed), faults));
        let bus: Arc<dyn Bus> = if self.scenario.has_shared_bus {
            self.bus.clone()
        } else {
            let seed = Actor::Line { slot, start }.seed(self.seed);
            Arc::new(LossyBus::new(seed, self.scenario.wakeups_lost, self.checker.clone()))
        };
        let identity = Identity::from_seed(Actor::Ids { slot, start }.seed(self.seed));
        let foundation = Foundation {
            store: Store::new(backend.clone()),
            bus,
            clock: Arc::new(self.clock),
            instance: identity.instance_id(),
            identity,
            mailbox: None,
            probes: Vec::new(),
        };
        let instance =
            Instance::start(foundation, backend, self.scenario.settings(slot), self.checker.clone());
        self.with_slots(|slots| slots[slot].instance = Some(instance));
    }

    /// At which passage of its fuse the next instance dies, if it does.
    fn next_crash(&self) -> Option<u64> {
        let mut dice = self.crashes.lock().unwrap_or_else(PoisonError::into_inner);
        let dies = dice.percent(self.scenario.crashes) && !self.is_calm();
        dies.then(|| u64::from(dice.between(0, 150)))
    }

    /// Some instance that lives.
    pub(crate) fn instance(&self, dice: &mut Dice) -> Option<Arc<Instance>> {
        let living: Vec<_> =
            self.with_slots(|slots| slots.iter().filter_map(|slot| slot.instance.clone()).collect());
        dice.pick(&living).cloned()
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }

    fn crash(&self, slot: usize) {
        if let Some(dead) = self.with_slots(|slots| slots[slot].instance.take()) {
            dead.kill();
            self.checker.with(|checker| {
                checker.counts.crashes += 1;
                checker.tell(&format!("i{slot}"), "CRASH");
            });
        }
    }

    /// Ends every instance whose fuse has blown, and starts another in its place after a while.
    async fn bury_the_dead(self: Arc<Self>, mut deaths: mpsc::UnboundedReceiver<usize>) {
        let mut dice = Dice::of(Actor::Crashes, self.seed);
        while let Some(slot) = deaths.recv().await {
            self.crash(slot);
            let downtime = if self.is_calm() { Duration::ZERO } else { dice.millis(0, 1_500) };
            tokio::time::sleep(downtime).await;
            self.start_instance(slot);
        }
    }

    /// Also kills instances while they wait, in the middle of a call that takes long.
    async fn kill_at_random_moments(self: Arc<Self>) {
        let mut dice = Dice::of(Actor::Crashes, self.seed ^ 1);
        while !self.is_calm() && dice.percent(self.scenario.crashes) {
            tokio::time::sleep(dice.millis(50, 8_000)).await;
            let slot = dice.below(self.scenario.instances);
            let lives = self.with_slots(|slots| slots[slot].instance.is_some());
            if lives && !self.is_calm() && self.blown.send(slot).is_err() {
                return;
            }
        }
    }

    fn calm_down(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
        self.checker.with(|checker| checker.tell("**", "CALM"));
        self.with_slots(|slots| {
            slots.iter().filter_map(|slot| slot.instance.as_ref()).for_each(|it| it.calm());
        });
    }

    /// A person who says yes to everything that is asked.
    async fn approve_everything(self: Arc<Self>) {
        let mut dice = Dice::of(Actor::Client(999), self.seed);
        loop {
            for (tenant, job) in self.checker.with(|checker| checker.known_approvals(true)) {
                let Some(instance) = self.instance(&mut dice) else { break };
                let control = instance.control.clone();
                let decision = Decision { verdict: Verdict::Approved, by: "yes".to_owned(), reason: None };
                // What is not recorded now is asked again.
                let _ = instance
                    .call(async move { control.runs.resolve_approval(&tenant, &job, decision).await })
                    .await;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    async fn resume_everything(self: Arc<Self>) {
        let watched = self.watched_store("op", Fuse::new(None, 0, self.blown.clone()));
        if let Err(error) = operators::resume_everything(&self, &Store::new(Arc::new(watched))).await {
            self.checker
                .with(|it| it.violate(Invariant::NothingBreaks, format!("nothing is resumed: {error}")));
        }
    }

    pub(crate) fn clock(&self) -> RuntimeClock {
        self.clock
    }

    async fn wait_for_the_end(&self) -> Result<(), StoreError> {
        let tables = self.store.tables().watched();
        let deadline = tokio::time::Instant::now() + CALM_MAX;
        loop {
            let is_late = tokio::time::Instant::now() >= deadline;
            let is_quiet = self.checker.with(|checker| {
                checker.is_quiet() && !checker.has_open_permits() && checker.behind_the_system().is_empty()
            });
            if is_late || is_quiet {
                let mut left = Vec::new();
                for table in OPEN {
                    left.push((table, tables.keys(table).await?));
                }
                if is_late || left.iter().all(|(_, keys)| keys.is_empty()) {
                    self.checker.with(|checker| {
                        checker.give_up_waiting();
                        checker.left_permits();
                        checker.left_behind_the_system();
                        for (table, keys) in &left {
                            checker.left(*table, keys);
                        }
                    });
                    return Ok(());
                }
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    fn is_sound(&self, ended: &Result<(), tokio::task::JoinError>) -> bool {
        if let Err(error) = ended {
            self.checker.with(|it| it.violate(Invariant::NothingBreaks, format!("a client broke: {error}")));
        }
        ended.is_ok()
    }
}
