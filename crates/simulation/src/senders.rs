//! Those who send events: they start runs that wait for some, send before, during and after the wait, and send again when no
//! answer comes, or for no reason.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_control::admission::StartRequest;
use interlock_control::events::SendEventError;
use interlock_model::admission::StartOutcome;
use interlock_model::event::SentEvent;
use interlock_model::limit::document::Labels;
use interlock_model::limit::place::StartPriority;
use interlock_model::{RunId, TenantId};
use serde_json::json;

use crate::dice::{Actor, Dice};
use crate::workflows;
use crate::world::World;

pub(crate) struct Sender {
    world: Arc<World>,
    name: String,
    dice: Dice,
}

/// How often a call that got no answer is made again at most.
const TRIES_MAX: u32 = 3;

impl Sender {
    pub(crate) fn new(world: Arc<World>, number: usize) -> Self {
        let dice = Dice::of(Actor::Sender(number), world.seed);
        Self { name: format!("e{number}"), dice, world }
    }

    pub(crate) async fn act(mut self) {
        for round in 0..self.world.scenario.actions {
            tokio::time::sleep(self.dice.millis(0, 2_000)).await;
            let Some((tenant, run)) = self.start(round).await else { continue };
            for number in 0..self.dice.between(1, 6) {
                tokio::time::sleep(self.dice.millis(0, 2_500)).await;
                self.send(&tenant, run, number).await;
                if self.dice.percent(40) {
                    self.send_to_key(&tenant, &format!("{}-{round}-{number}", self.name)).await;
                }
            }
        }
    }

    async fn start(&mut self, round: u32) -> Option<(TenantId, RunId)> {
        let tenants = &self.world.scenario.tenants;
        let tenant = tenants[self.dice.below(tenants.len())].id.clone();
        let request = StartRequest {
            tenant: tenant.clone(),
            workflow: workflows::AWAIT.parse().expect("it is a name"),
            input: workflows::input(round % workflows::EVENT_KEYS),
            key: format!("{}-{round}", self.name).parse().ok(),
            labels: Labels::default(),
            priority: StartPriority::default(),
            parent_span: None,
        };
        for _ in 0..TRIES_MAX {
            let Some(instance) = self.world.instance(&mut self.dice) else {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            };
            let (control, request) = (instance.control.clone(), request.clone());
            let answer = instance.call(async move { control.admission.start(request).await }).await;
            if let Some(Ok(
                StartOutcome::Admitted { run, .. }
                | StartOutcome::Queued { run, .. }
                | StartOutcome::Replayed { run, .. },
            )) = answer
            {
                return Some((tenant, run));
            }
            tokio::time::sleep(self.dice.millis(100, 2_000)).await;
        }
        None
    }

    async fn send_to_key(&mut self, tenant: &TenantId, id: &str) {
        let key = format!("k{}", self.dice.between(0, workflows::EVENT_KEYS - 1));
        let event = SentEvent {
            data: json!({"id": id, "n": 1}),
            id: id.parse().expect("letters and digits make an id"),
            name: "paid".parse().expect("it is a name"),
            key: key.parse().ok(),
            by: self.name.clone(),
        };
        for _ in 0..TRIES_MAX {
            let Some(instance) = self.world.instance(&mut self.dice) else { return };
            let (control, tenant, event) = (instance.control.clone(), tenant.clone(), event.clone());
            let answer = instance.call(async move { control.events.send_to_key(&tenant, event).await }).await;
            if !matches!(answer, None | Some(Err(StoreError::Unavailable { .. }))) {
                return;
            }
            self.world.checker.with(|checker| checker.counts.answers_lost += 1);
        }
    }

    async fn send(&mut self, tenant: &TenantId, run: RunId, number: u32) {
        let id = format!("{}-{number}", self.name);
        let event = SentEvent {
            data: json!({"id": id, "n": number}),
            id: id.parse().expect("letters and digits make an id"),
            name: "go".parse().expect("it is a name"),
            key: None,
            by: self.name.clone(),
        };
        let mut repeats = u32::from(self.dice.percent(20));
        for _ in 0..TRIES_MAX {
            let Some(instance) = self.world.instance(&mut self.dice) else { return };
            let (control, tenant, event) = (instance.control.clone(), tenant.clone(), event.clone());
            let answer = instance.call(async move { control.events.send(&tenant, run, event).await }).await;
            if matches!(answer, None | Some(Err(SendEventError::Store(StoreError::Unavailable { .. })))) {
                self.world.checker.with(|checker| checker.counts.answers_lost += 1);
            } else if repeats == 0 {
                return;
            } else {
                repeats -= 1;
            }
        }
    }
}
