//! Operators: they save, delete, pause and resume named limits, and move runs in queues, while clients start runs.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::verbs::{ListLimits, PauseLimit};
use interlock_backend::{Store, StoreError};
use interlock_model::Clock as _;
use interlock_model::LimitName;
use interlock_model::limit::TENANT_RUNS;
use interlock_model::limit::document::Pause;
use interlock_model::limit::owner::{is_of_system, name_at_system};

use crate::dice::{Actor, Dice};
use crate::instance::Instance;
use crate::scenario::limit_document;
use crate::world::World;

/// How long everything may stay paused once nothing goes wrong any more.
const RESUMED_EVERY: Duration = Duration::from_millis(500);

pub(crate) struct Operator {
    world: Arc<World>,
    dice: Dice,
}

#[derive(Clone, Copy)]
enum Act {
    Save,
    Delete,
    Pause,
    Resume,
    Move,
    SaveSystem,
    DeleteSystem,
    PauseSystem,
    ResumeSystem,
}

impl Operator {
    pub(crate) fn new(world: Arc<World>, number: usize) -> Self {
        Self { dice: Dice::of(Actor::LimitClient(number), world.seed), world }
    }

    /// Does a few things and is done.
    pub(crate) async fn act(mut self) {
        for _ in 0..self.world.scenario.actions * 2 {
            tokio::time::sleep(self.dice.millis(0, 1_500)).await;
            let act = self.dice.weighted(
                Act::Save,
                &[
                    (12, Act::Delete),
                    (15, Act::Pause),
                    (15, Act::Resume),
                    (15, Act::Move),
                    (10, Act::SaveSystem),
                    (6, Act::DeleteSystem),
                    (5, Act::PauseSystem),
                    (7, Act::ResumeSystem),
                ],
                100,
            );
            let Some(instance) = self.world.instance(&mut self.dice) else { continue };
            // What was not done is not done again.
            self.carry_out(act, &instance).await;
        }
    }

    async fn carry_out(&mut self, act: Act, instance: &Arc<Instance>) {
        let number = self.dice.below(self.world.scenario.tenants.len());
        let tenant = self.world.scenario.tenants[number].id.clone();
        let control = instance.control.clone();
        match act {
            Act::Save => {
                let (name, document) = (self.limit(number), limit_document(&mut self.dice));
                let save = async move { control.limits.save(&tenant, name, document, None).await };
                drop(instance.call(save).await);
            }
            Act::Delete => {
                let name = self.limit(number);
                drop(instance.call(async move { control.limits.delete(&tenant, name, None).await }).await);
            }
            Act::Pause | Act::Resume => {
                let (name, at) = (self.pausable(number), self.world.clock().now());
                let pause =
                    matches!(act, Act::Pause).then(|| Pause { by: "op".to_owned(), at, reason: None });
                drop(instance.call(async move { control.limits.pause(&tenant, name, pause).await }).await);
            }
            Act::SaveSystem => {
                let (name, document) = (self.system_limit(), limit_document(&mut self.dice));
                let save = async move { control.limits.save_for_system(&name, document, None).await };
                drop(instance.call(save).await);
            }
            Act::DeleteSystem => {
                let name = self.system_limit();
                let delete = async move { control.limits.delete_for_system(&name, None).await };
                drop(instance.call(delete).await);
            }
            Act::PauseSystem | Act::ResumeSystem => {
                let (name, at) = (self.system_limit(), self.world.clock().now());
                let pause =
                    matches!(act, Act::PauseSystem).then(|| Pause { by: "op".to_owned(), at, reason: None });
                let change = async move { control.limits.pause_for_system(&name, pause).await };
                drop(instance.call(change).await);
            }
            Act::Move => {
                let runs = self.world.checker.with(|checker| checker.known_runs());
                let Some((tenant, run)) = self.dice.pick(&runs).cloned() else { return };
                let to_front = self.dice.percent(50);
                drop(
                    instance.call(async move { control.limits.move_run(&tenant, run, to_front).await }).await,
                );
            }
        }
    }

    /// A limit that exists, or one more.
    fn limit(&mut self, tenant: usize) -> LimitName {
        let known = &self.world.scenario.tenants[tenant].named_limits;
        let number = self.dice.below(known.len() + 1);
        format!("l{number}").parse().expect("a letter and a digit make a name")
    }

    /// One of a few, which may not exist.
    fn system_limit(&mut self) -> LimitName {
        format!("s{}", self.dice.below(3)).parse().expect("a letter and a digit make a name")
    }

    fn pausable(&mut self, tenant: usize) -> LimitName {
        if self.dice.percent(30) {
            return TENANT_RUNS.parse().expect("it is a name");
        }
        self.limit(tenant)
    }
}

/// Resumes everything that is paused, for ever.
pub(crate) async fn resume_everything(world: &World, store: &Store) -> Result<(), StoreError> {
    let mut dice = Dice::of(Actor::LimitClient(999), world.seed);
    loop {
        if let Some(instance) = world.instance(&mut dice) {
            resume_system(&instance).await;
        }
        for tenant in world.scenario.tenants.iter().map(|tenant| &tenant.id) {
            let book = store.call(ListLimits { tenant: tenant.clone() }).await?;
            let paused = book.limits.into_iter().filter(|limit| limit.paused.is_some());
            let own = book.paused.map(|_| TENANT_RUNS.parse().expect("it is a name"));
            let names = paused.map(|limit| limit.name).filter(|name| !is_of_system(name));
            for name in names.chain(own) {
                store.call(PauseLimit { tenant: tenant.clone(), name, pause: None }).await?;
            }
        }
        tokio::time::sleep(RESUMED_EVERY).await;
    }
}

/// What is not resumed now is resumed later.
async fn resume_system(instance: &Arc<Instance>) {
    let control = instance.control.clone();
    let resume = async move {
        let Ok(book) = control.limits.of_system().await else { return };
        let paused = book.limits.iter().filter(|limit| limit.paused.is_some());
        for name in paused.filter_map(|limit| name_at_system(&limit.name)) {
            let _ = control.limits.pause_for_system(&name, None).await;
        }
    };
    instance.call(resume).await;
}
