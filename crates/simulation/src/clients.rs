//! Clients: they start and retry blindly, reuse keys, change their minds, and meet at the same moments.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use interlock_backend::StoreError;
use interlock_backend::tenants::{LimitScope, SetLimits};
use interlock_control::admission::{RerunRequest, StartError, StartRequest};
use interlock_model::admission::StartOutcome;
use interlock_model::approval::{Decision, Verdict};
use interlock_model::limit::Limits;
use interlock_model::limit::document::Labels;
use interlock_model::limit::place::StartPriority;
use interlock_model::{RunId, TenantId, WorkflowId};

use crate::dice::{Actor, Dice};
use crate::scenario::TenantPlan;
use crate::workflows;
use crate::world::World;

pub(crate) struct Client {
    world: Arc<World>,
    name: String,
    dice: Dice,
    limit_dice: Dice,
}

#[derive(Clone, Copy)]
enum Act {
    Start,
    Cancel,
    Delete,
    Answer,
    ChangeLimits,
    CancelJob,
    Rerun,
    SaveWorkflow,
}

/// What a client makes of an answer.
enum Heard {
    Done,
    /// Refused for now, or nothing is known: it may be asked again.
    Retry,
}

/// The most tries of one start.
const TRIES_MAX: u32 = 3;

/// Few, so that they meet.
const KEYS: usize = 3;

impl Client {
    pub(crate) fn new(world: Arc<World>, number: usize) -> Self {
        let dice = Dice::of(Actor::Client(number), world.seed);
        let limit_dice = Dice::of(Actor::LimitClient(number + 100), world.seed);
        Self { name: format!("c{number}"), dice, limit_dice, world }
    }

    /// Does a few things and is done.
    pub(crate) async fn act(mut self) {
        for _ in 0..self.world.scenario.actions {
            // At whole seconds, so that clients meet at the gate.
            let pause = Duration::from_secs(self.dice.weighted(0, &[(35, 1), (15, 3)], 100));
            tokio::time::sleep(pause).await;
            match self.choose() {
                Act::Start => self.start().await,
                Act::Cancel => self.cancel().await,
                Act::Delete => self.delete().await,
                Act::Answer => self.answer().await,
                Act::ChangeLimits => self.change_limits().await,
                Act::CancelJob => self.cancel_job().await,
                Act::Rerun => self.rerun().await,
                Act::SaveWorkflow => self.save_workflow().await,
            }
        }
    }

    fn choose(&mut self) -> Act {
        let others = [
            (9, Act::Cancel),
            (7, Act::Delete),
            (13, Act::Answer),
            (9, Act::ChangeLimits),
            (3, Act::CancelJob),
            (5, Act::Rerun),
            (4, Act::SaveWorkflow),
        ];
        self.dice.weighted(Act::Start, &others, 100)
    }

    fn tenant(&mut self) -> usize {
        self.dice.below(self.world.scenario.tenants.len())
    }

    fn plan(&self, tenant: usize) -> &TenantPlan {
        &self.world.scenario.tenants[tenant]
    }

    /// A start, or several of the same at once.
    async fn start(&mut self) {
        let tenant = self.tenant();
        let picked = self.dice.below(self.plan(tenant).workflows.len());
        let workflow = self.plan(tenant).workflows[picked].clone();
        let key = self.dice.percent(60).then(|| self.dice.below(KEYS));
        // A key goes with one payload, mostly.
        let number = match key {
            Some(key) if !self.dice.percent(12) => u32::try_from(key).unwrap_or(0),
            Some(_) | None => self.dice.between(0, 3),
        };
        let request = StartRequest {
            tenant: self.plan(tenant).id.clone(),
            workflow,
            input: workflows::input(number),
            key: key.and_then(|key| format!("k{key}").parse().ok()),
            labels: Labels::default(),
            priority: self.priority(),
            parent_span: None,
        };
        let at_once = if self.dice.percent(35) { self.dice.between(2, 4) } else { 1 };
        for _ in 0..TRIES_MAX {
            let mut calls = Vec::new();
            for _ in 0..at_once {
                calls.push(self.one_start(request.clone()));
            }
            let heard = join_all(calls).await;
            let is_open = heard.iter().any(|heard| matches!(heard, Heard::Retry));
            if !is_open || (request.key.is_none() && self.dice.percent(50)) {
                return;
            }
            tokio::time::sleep(self.dice.millis(10, 1_500)).await;
        }
    }

    /// From dice of its own: what a seed stood for before priorities, it stands for still.
    fn priority(&mut self) -> StartPriority {
        let level = self.limit_dice.between(0, 9);
        u8::try_from(level).ok().and_then(|level| level.try_into().ok()).unwrap_or_default()
    }

    fn one_start(&mut self, request: StartRequest) -> impl Future<Output = Heard> + use<> {
        let instance = self.world.instance(&mut self.dice);
        let (world, name) = (self.world.clone(), self.name.clone());
        async move {
            let tenant = request.tenant.clone();
            let answer = match instance {
                None => None,
                Some(instance) => {
                    let control = instance.control.clone();
                    instance.call(async move { control.admission.start(request).await }).await
                }
            };
            hear(&world, &name, &tenant, answer.as_ref())
        }
    }

    fn some_run(&mut self) -> Option<(TenantId, RunId)> {
        let runs = self.world.checker.with(|checker| checker.known_runs());
        // The newest are the most likely to be alive.
        let recent = &runs[runs.len().saturating_sub(4)..];
        self.dice.pick(recent).cloned()
    }

    async fn cancel(&mut self) {
        let Some((tenant, run)) = self.some_run() else { return };
        let Some(instance) = self.world.instance(&mut self.dice) else { return };
        let control = instance.control.clone();
        let answer = instance.call(async move { control.runs.cancel(&tenant, run, "client").await }).await;
        self.hear("cancel", answer.as_ref());
    }

    async fn delete(&mut self) {
        let Some((tenant, run)) = self.some_run() else { return };
        let Some(instance) = self.world.instance(&mut self.dice) else { return };
        let control = instance.control.clone();
        let answer = instance.call(async move { control.runs.delete(&tenant, run).await }).await;
        self.hear("delete", answer.as_ref());
    }

    /// Answers a question, perhaps one that was answered before.
    async fn answer(&mut self) {
        let only_open = self.dice.percent(70);
        let known = self.world.checker.with(|checker| checker.known_approvals(only_open));
        let Some((tenant, job)) = self.dice.pick(&known).cloned() else { return };
        let Some(instance) = self.world.instance(&mut self.dice) else { return };
        let verdict = if self.dice.percent(60) { Verdict::Approved } else { Verdict::Rejected };
        let decision = Decision { verdict, by: self.name.clone(), reason: None };
        let control = instance.control.clone();
        let answer =
            instance.call(async move { control.runs.resolve_approval(&tenant, &job, decision).await }).await;
        self.hear("answer", answer.as_ref());
    }

    async fn change_limits(&mut self) {
        let tenant = self.tenant();
        let runs_max = Some(self.dice.between(0, 3));
        let limits = Limits { runs_max, ..self.plan(tenant).limits };
        let scope = LimitScope::Tenant(self.plan(tenant).id.clone());
        let set = SetLimits { scope, limits, keeps_quotas: false };
        let Some(instance) = self.world.instance(&mut self.dice) else { return };
        let control = instance.control.clone();
        let answer = instance.call(async move { control.documents.set_limits(set).await }).await;
        self.hear("change limits", answer.as_ref());
    }

    async fn cancel_job(&mut self) {
        let open = self.world.checker.with(|checker| checker.open_jobs());
        let Some((tenant, job)) = self.dice.pick(&open).cloned() else { return };
        let Some(instance) = self.world.instance(&mut self.dice) else { return };
        let control = instance.control.clone();
        let answer =
            instance.call(async move { control.runs.cancel_job(&tenant, &job, "client").await }).await;
        self.hear("cancel a job", answer.as_ref());
    }

    async fn rerun(&mut self) {
        let Some((tenant, run)) = self.some_run() else { return };
        let key = self.dice.percent(50).then(|| self.dice.below(KEYS));
        let key = key.and_then(|key| format!("r{key}").parse().ok());
        let Some(instance) = self.world.instance(&mut self.dice) else { return };
        let control = instance.control.clone();
        let request = RerunRequest { tenant: tenant.clone(), run, from_step: None, key, parent_span: None };
        let answer = instance.call(async move { control.admission.rerun(request).await }).await;
        let (world, name) = (self.world.clone(), self.name.clone());
        hear(&world, &name, &tenant, answer.as_ref());
    }

    async fn save_workflow(&mut self) {
        let tenant = self.tenant();
        let picked = self.dice.below(self.plan(tenant).workflows.len());
        let workflow: WorkflowId = self.plan(tenant).workflows[picked].clone();
        let id = self.plan(tenant).id.clone();
        let Some(instance) = self.world.instance(&mut self.dice) else { return };
        let control = instance.control.clone();
        let document = workflows::document(workflow.as_str());
        let answer = instance.call(async move { control.documents.save_workflow(&id, document).await }).await;
        self.world.checker.with(|checker| {
            checker.counts.answers_lost += u64::from(!matches!(answer, Some(Ok(_))));
            checker.tell(&self.name, "save a workflow");
        });
    }

    fn hear<T>(&self, what: &str, answer: Option<&Result<T, StoreError>>) {
        let is_lost = matches!(answer, None | Some(Err(StoreError::Unavailable { .. })));
        self.world.checker.with(|checker| {
            checker.counts.answers_lost += u64::from(is_lost);
            checker.tell(&self.name, what);
        });
    }
}

/// Takes the answer to a start in: what it says must be true.
fn hear(
    world: &World,
    name: &str,
    tenant: &TenantId,
    answer: Option<&Result<StartOutcome, StartError>>,
) -> Heard {
    world.checker.with(|checker| match answer {
        Some(Ok(
            StartOutcome::Admitted { run, .. }
            | StartOutcome::Queued { run, .. }
            | StartOutcome::Joined { run, .. }
            | StartOutcome::Replayed { run, .. }
            | StartOutcome::KeyReused { run, .. },
        )) => {
            checker.tell(name, "has a run");
            checker.acknowledged(tenant, *run);
            Heard::Done
        }
        Some(Ok(
            StartOutcome::AtCapacity { .. }
            | StartOutcome::LimitReached { .. }
            | StartOutcome::QueueFull { .. }
            | StartOutcome::DefinitionChanged { .. }
            | StartOutcome::LimitsChanged { .. },
        )) => {
            checker.tell(name, "is refused");
            Heard::Retry
        }
        Some(Err(StartError::Unknown)) => {
            checker.counts.starts_unknown += 1;
            checker.tell(name, "does not know");
            Heard::Retry
        }
        Some(Err(
            StartError::LockBusy { .. }
            | StartError::NotDone
            | StartError::StorageFull
            | StartError::Store(_),
        ))
        | None => {
            checker.counts.answers_lost += 1;
            checker.tell(name, "has no answer");
            Heard::Retry
        }
        Some(Err(
            StartError::WorkflowNotFound(_)
            | StartError::RunNotFound(_)
            | StartError::InvalidInput(_)
            | StartError::NoGroup(_)
            | StartError::NotRerunnable(_)
            | StartError::UnknownStep(_),
        )) => {
            checker.tell(name, "request was invalid");
            Heard::Done
        }
    })
}
