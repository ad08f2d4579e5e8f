//! What a seed stands for: who takes part, under which limits, and how bad the lines are.

use std::collections::BTreeMap;
use std::time::Duration;

use interlock_backend::faulty::Faults;
use interlock_control::Settings;
use interlock_model::contention::{AdmissionStrategy, RunStrategy, Scope, Tuning};
use interlock_model::limit::Limits;
use interlock_model::limit::document::{
    AppliesTo, CountedRuns, LimitDocument, OnFull, QueueDocument, QueueOrder, RateDocument,
};
use interlock_model::lock::{Inventory, Timings};
use interlock_model::retry::RetryPolicy;
use interlock_model::time::millis;
use interlock_model::{LimitName, TenantId, WorkflowId};

use crate::Bug;
use crate::dice::{Actor, Dice};
use crate::workflows;

pub(crate) struct Scenario {
    pub tenants: Vec<TenantPlan>,
    pub instances: usize,
    pub workers: usize,
    /// Many workers, in a hurry, on runs that each need many of them.
    pub is_crowded: bool,
    pub clients: usize,
    pub lockers: usize,
    /// Those who change named limits.
    pub operators: usize,
    pub spenders: usize,
    /// Those who send events.
    pub senders: usize,
    pub actions: u32,
    pub faults: Faults,
    /// Wake-ups of a hundred that are lost.
    pub wakeups_lost: u32,
    /// One bus for all instances, as between machines, or one for each.
    pub has_shared_bus: bool,
    /// Instances that die, of a hundred starts.
    pub crashes: u32,
    pub job_lease: Duration,
    /// Of each place for an instance. Those who decide in one step share the store with those who wait for a lock.
    pub admission_strategies: Vec<AdmissionStrategy>,
    /// Of the instances in turn.
    run_strategies: [RunStrategy; 2],
    settings: Settings,
}

pub(crate) struct TenantPlan {
    pub id: TenantId,
    pub limits: Limits,
    /// By name.
    pub named_limits: Vec<(LimitName, LimitDocument)>,
    pub workflows: Vec<WorkflowId>,
    /// Those that only steps start, and those who send events.
    pub nested: Vec<WorkflowId>,
}

impl Scenario {
    pub(crate) fn of(seed: u64, planted: Option<Bug>) -> Self {
        let mut dice = Dice::of(Actor::Scenario, seed);
        let mut tenants: Vec<TenantPlan> =
            (1..=dice.weighted(2, &[(25, 3)], 100)).map(|n| tenant(n, &mut dice)).collect();
        let operators = named_limits(seed, &mut tenants);
        nest(seed, &mut tenants);
        let senders = senders(seed, &mut tenants);
        let run_strategies = run_strategies(seed);
        let is_crowded = run_strategies.contains(&RunStrategy::Lock);
        if is_crowded {
            for tenant in &mut tenants {
                tenant.workflows[0] = name(workflows::CROWD);
            }
        }
        let is_deaf = planted == Some(Bug::WakeupLostForEver);
        let faults = faults(&mut dice);
        let instances = dice.weighted(2, &[(25, 3)], 100);
        Self {
            instances,
            workers: if is_crowded { tenants.len() * CROWD } else { tenants.len() + 1 },
            is_crowded,
            tenants,
            operators,
            clients: dice.weighted(2, &[(40, 3)], 100),
            actions: dice.between(3, 5),
            faults,
            wakeups_lost: if is_deaf { 60 } else { dice.weighted(0, &[(30, 10), (30, 40)], 100) },
            has_shared_bus: dice.percent(50),
            crashes: dice.weighted(0, &[(30, 40), (40, 80)], 100),
            job_lease: dice.millis(1_500, 3_000),
            settings: under_lock(seed, &settings(is_deaf, faults)),
            run_strategies,
            // Thrown last: what a seed stood for before locks, it stands for still.
            lockers: dice.weighted(3, &[(30, 0), (20, 5)], 100),
            // In a deaf world permits never expire.
            spenders: if is_deaf { 0 } else { spenders(seed) },
            senders,
            admission_strategies: admission_strategies(&mut dice, instances),
        }
    }

    /// Of the instance in this place.
    pub(crate) fn settings(&self, slot: usize) -> Settings {
        Settings {
            admission_strategy: self.admission_strategies[slot],
            run_strategy: self.run_strategies[slot % self.run_strategies.len()],
            ..self.settings.clone()
        }
    }
}

fn spenders(seed: u64) -> usize {
    // Of dice of their own: what a seed stood for before budgets, it stands for still.
    Dice::of(Actor::Spender(usize::MAX >> 44), seed).weighted(2, &[(30, 0), (20, 4)], 100)
}

/// In a part of the seeds, events are sent to runs.
fn senders(seed: u64, tenants: &mut [TenantPlan]) -> usize {
    let senders = Dice::of(Actor::Sender(usize::MAX >> 44), seed).weighted(0, &[(20, 1), (15, 3)], 100);
    for tenant in tenants.iter_mut().filter(|_| senders > 0) {
        tenant.nested.push(name(workflows::AWAIT));
    }
    senders
}

/// Mostly one step; else a lock for all, or for some.
fn admission_strategies(dice: &mut Dice, instances: usize) -> Vec<AdmissionStrategy> {
    let locked = dice.weighted(0, &[(20, 100), (20, 50)], 100);
    let mut strategy =
        || if dice.percent(locked) { AdmissionStrategy::Lock } else { AdmissionStrategy::Atomic };
    (0..instances).map(|_| strategy()).collect()
}

/// Workers of each tenant where it is crowded.
const CROWD: usize = 4;

/// How many different workflows a tenant has.
const WORKFLOWS: usize = 2;

/// Caps are small and often reached: bugs of admission live at the edge.
fn tenant(number: u32, dice: &mut Dice) -> TenantPlan {
    let id = format!("t{number}").parse().expect("a letter and a digit make a name");
    let runs_max = Some(dice.between(1, 3));
    let key_retention = dice.percent(35).then(|| dice.millis(1_000, 4_000));
    let mut workflows: Vec<WorkflowId> = Vec::new();
    while workflows.len() < WORKFLOWS {
        let name = name(workflows::NAMES[dice.below(workflows::NAMES.len())]);
        if !workflows.contains(&name) {
            workflows.push(name);
        }
    }
    let limits = Limits { runs_max, key_retention, ..Limits::default() };
    TenantPlan { id, limits, named_limits: Vec::new(), workflows, nested: Vec::new() }
}

/// In a part of the seeds, tenants queue at their caps and have named limits. Returns how many operators change those.
fn named_limits(seed: u64, tenants: &mut [TenantPlan]) -> usize {
    let mut dice = Dice::of(Actor::Limits, seed);
    if !dice.percent(40) {
        return 0;
    }
    for tenant in tenants {
        if dice.percent(50) {
            tenant.limits.on_full = Some(OnFull::Queue);
            tenant.limits.queued_max = Some(dice.between(1, 6));
            tenant.limits.queue_wait = Some(dice.millis(1_000, 15_000));
            tenant.limits.queue_order = dice.percent(30).then_some(QueueOrder::Priority);
        }
        let count = dice.between(0, 4);
        let count = if dice.percent(15) { count + 4 } else { count };
        for number in 0..count {
            let name = format!("l{number}").parse().expect("a letter and a digit make a name");
            tenant.named_limits.push((name, limit_document(&mut dice)));
        }
    }
    dice.weighted(1, &[(30, 2), (20, 0)], 100)
}

/// In a part of the seeds, runs have children, and some limits count them.
fn nest(seed: u64, tenants: &mut [TenantPlan]) {
    let mut dice = Dice::of(Actor::Children, seed);
    if !dice.percent(30) {
        return;
    }
    for tenant in tenants {
        tenant.workflows.push(name(workflows::NEST));
        tenant.nested = workflows::NESTED.map(name).into();
        for (_, limit) in &mut tenant.named_limits {
            if limit.queue.is_some() && dice.percent(60) {
                limit.count = CountedRuns::All;
            }
        }
        for number in 0..dice.between(0, 2) {
            let name = format!("n{number}").parse().expect("a letter and a digit make a name");
            tenant.named_limits.push((name, limit_of_children(&mut dice)));
        }
    }
}

/// A limit that counts some of the children.
fn limit_of_children(dice: &mut Dice) -> LimitDocument {
    let policies = [OnFull::Queue, OnFull::Queue, OnFull::Reject, OnFull::Join];
    let counted = dice.pick(&workflows::NESTED).copied().unwrap_or_default();
    let (max, max_wait_sec) = (Some(dice.between(1, 5)), Some(dice.between(1, 15)));
    LimitDocument {
        applies_to: Some(AppliesTo { workflows: vec![counted.to_owned()] }),
        key: dice.percent(30).then(|| "input.number".to_owned()),
        max_runs: Some(dice.between(1, 2)),
        on_full: dice.pick(&policies).copied().unwrap_or_default(),
        queue: Some(QueueDocument { max, max_wait_sec, ..QueueDocument::default() }),
        count: CountedRuns::All,
        ..LimitDocument::default()
    }
}

/// A limit of any kind: often full, and no run waits for long.
pub(crate) fn limit_document(dice: &mut Dice) -> LimitDocument {
    let policies = [
        OnFull::Reject,
        OnFull::Queue,
        OnFull::Queue,
        OnFull::Queue,
        OnFull::Join,
        OnFull::ReplaceRunning,
        OnFull::ReplaceQueued,
        OnFull::Debounce,
        OnFull::Debounce,
    ];
    let on_full = dice.pick(&policies).copied().unwrap_or_default();
    let rate = dice.percent(25).then(|| RateDocument {
        starts: dice.between(1, 3),
        period_sec: dice.between(1, 4),
        burst: dice.percent(50).then_some(1),
    });
    let waits = !matches!(on_full, OnFull::Reject | OnFull::Join);
    let queue = queue_document(dice);
    // The groups of a fair queue share one group of the limit.
    let keyed = if queue.fair_by.is_some() { 20 } else { 60 };
    let quiet_sec = (on_full == OnFull::Debounce).then(|| dice.between(1, 3));
    LimitDocument {
        quiet_sec,
        max_delay_sec: quiet_sec.map(|quiet| quiet + dice.between(0, 3)),
        applies_to: None,
        key: dice.percent(keyed).then(|| "input.number".to_owned()),
        max_runs: Some(dice.between(1, 2)),
        rate,
        on_full,
        queue: waits.then_some(queue),
        count: CountedRuns::Root,
    }
}

fn queue_document(dice: &mut Dice) -> QueueDocument {
    let order = dice.weighted(QueueOrder::Fifo, &[(30, QueueOrder::Priority), (30, QueueOrder::Fair)], 100);
    let max_wait_sec = Some(dice.between(1, 15));
    if order != QueueOrder::Fair {
        return QueueDocument {
            max: Some(dice.between(1, 5)),
            max_wait_sec,
            order,
            ..QueueDocument::default()
        };
    }
    let fair_by = if dice.percent(70) { "input.number" } else { "workflow" };
    let mut weights = BTreeMap::new();
    if dice.percent(40) {
        weights.insert(dice.below(4).to_string(), dice.between(2, 4));
    }
    QueueDocument {
        max: Some(dice.between(2, 9)),
        max_wait_sec,
        order,
        fair_by: Some(fair_by.to_owned()),
        weights,
    }
}

fn name(workflow: &str) -> WorkflowId {
    workflow.parse().expect("the workflows of the simulation have names")
}

fn faults(dice: &mut Dice) -> Faults {
    // From a local disk to a network that outlasts leases.
    let delay_max = dice.weighted(5, &[(30, 50), (20, 400), (10, 3_000)], 100);
    Faults {
        requests_lost: dice.weighted(0, &[(35, 20), (25, 60), (10, 250)], 100),
        replies_lost: dice.weighted(0, &[(35, 20), (25, 60), (10, 250)], 100),
        delayed: dice.weighted(900, &[(25, 300), (15, 50)], 100),
        delay_max: Duration::from_millis(delay_max),
    }
}

/// How results reach their runs, instance by instance: as a rule through the inbox; in a part of the seeds under the run's
/// lock, or here so and there so.
fn run_strategies(seed: u64) -> [RunStrategy; 2] {
    let mut dice = Dice::of(Actor::RunStrategy, seed);
    let (inbox, lock) = (RunStrategy::Inbox, RunStrategy::Lock);
    dice.weighted([inbox; 2], &[(30, [lock; 2]), (10, [lock, inbox])], 100)
}

/// Short enough that a turn often outlasts it.
fn run_lease(faults: Faults) -> Duration {
    (faults.delay_max * 3).clamp(Duration::from_millis(100), Duration::from_secs(2))
}

/// What is chosen for results that find their run busy: now and then no call waits, and few deliveries are allowed.
fn under_lock(seed: u64, settings: &Settings) -> Settings {
    let mut dice = Dice::of(Actor::RunStrategy, seed ^ 1);
    let policies = [
        RetryPolicy::Fixed { delay_ms: 500 },
        RetryPolicy::BoundedJitter { base_ms: 500, percent: 30 },
        RetryPolicy::FullJitter { base_ms: 20, cap_ms: 2_000 },
        RetryPolicy::Fixed { delay_ms: 5 },
    ];
    let policy = dice.pick(&policies).copied().unwrap_or(policies[0]);
    let max_wait_ms = dice.weighted(0, &[(30, 3_000), (20, 100)], 100);
    let lock_busy_tuning = Tuning { policy, max_wait_ms, ..settings.lock_busy_tuning };
    let deliveries_max = dice.weighted(100, &[(20, 2), (20, 5)], 100);
    Settings { lock_busy_tuning, deliveries_max, ..settings.clone() }
}

fn settings(is_deaf: bool, faults: Faults) -> Settings {
    let (poll, every) = if is_deaf {
        (Duration::from_hours(24), Duration::from_hours(24))
    } else {
        (Duration::from_secs(1), Duration::from_secs(5))
    };
    // In a deaf world no stage polls, on one replica or on all.
    let timings = Timings {
        reconcile_every: every,
        snapshot_every: every,
        run_lease: run_lease(faults),
        ..Timings::default()
    };
    let lock_ttl_ms = millis(run_lease(faults));
    Settings {
        lock_busy_tuning: Tuning { lock_ttl_ms, ..Scope::LockBusy.tuning() },
        locks: Inventory::new(timings),
        take_max: 2,
        engine_lanes: 2,
        // On the paused clock everything is computed in one thread, in one order.
        turn_time_max: None,
        // Crashes and lost messages are frequent: five tries in a row may each meet one.
        turn_tries_max: 20,
        poll,
        claim_poll: Duration::from_secs(3),
        cancel_wait: Duration::from_secs(1),
        // Small, so that what is kept is also thrown away.
        definitions_max: 8,
        cached_runs_max: 2,
        admission_repeats_max: 2,
        admission_tuning: Tuning {
            policy: RetryPolicy::FullJitter { base_ms: 50, cap_ms: 400 },
            max_wait_ms: 2_000,
            // Short enough that a start often outlasts it.
            lock_ttl_ms: millis(faults.delay_max * 3).clamp(100, 2_000),
        },
        ..Settings::default()
    }
}
