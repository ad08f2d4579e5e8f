//! Those who spend from budgets: they reserve, ask again when no answer comes, settle more or less than they were granted,
//! renew, release, or vanish with their permit.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use interlock_backend::StoreError;
use interlock_control::Control;
use interlock_control::budgets::{BudgetError, PermitGrant, PermitRequest};
use interlock_model::budget::{Amount, BudgetDocument, JobUsage, OnExhausted, Period, Permit};
use interlock_model::{BudgetName, PermitId, TenantId};

use crate::dice::{Actor, Dice};
use crate::world::World;

pub(crate) struct Spender {
    world: Arc<World>,
    name: String,
    dice: Dice,
}

/// The budgets of each tenant, with their amounts in millionths: so little that they are often exhausted.
const BUDGETS: [(&str, Period, u64); 2] = [("hourly", Period::Hour, 60), ("total", Period::Total, 90)];

/// How often a call that got no answer is made again at most.
const TRIES_MAX: u32 = 3;

/// Those that only steps reserve from, with what they do when they are exhausted.
const OF_STEPS: [(&str, Period, u64, OnExhausted); 3] = [
    ("queued", Period::Total, 130, OnExhausted::Queue),
    ("denied", Period::Run, 45, OnExhausted::Deny),
    ("asked", Period::Hour, 70, OnExhausted::Ask),
];

pub(crate) fn documents() -> impl Iterator<Item = (BudgetName, BudgetDocument)> {
    let of_clients = BUDGETS.into_iter().map(|(name, per, amount)| (name, per, amount, OnExhausted::Deny));
    of_clients.chain(OF_STEPS).map(|(name, per, amount, on_exhausted)| {
        let document = BudgetDocument {
            unit: "calls".to_owned(),
            amount: Amount::from_micros(amount),
            per,
            timezone: None,
            key: None,
            warn_at: vec![50, 100],
            on_exhausted,
        };
        (budget(name), document)
    })
}

/// What a worker says that it has spent: often, and not always within what was reserved.
pub(crate) fn usage(dice: &mut Dice) -> JobUsage {
    if dice.percent(25) {
        return JobUsage::new();
    }
    OF_STEPS
        .iter()
        .map(|(name, ..)| (budget(name), Amount::from_micros(dice.between(0, 35).into())))
        .collect()
}

fn budget(name: &str) -> BudgetName {
    name.parse().expect("the budgets of the simulation have names")
}

impl Spender {
    pub(crate) fn new(world: Arc<World>, number: usize) -> Self {
        let dice = Dice::of(Actor::Spender(number), world.seed);
        Self { name: format!("s{number}"), dice, world }
    }

    pub(crate) async fn act(mut self) {
        for round in 0..self.world.scenario.actions * 2 {
            tokio::time::sleep(self.dice.millis(0, 800)).await;
            let request = self.request(&format!("{}-{round}", self.name));
            if let Some(permit) = self.reserve(&request).await {
                self.spend(&request, &permit).await;
            }
        }
    }

    fn request(&mut self, id: &str) -> PermitRequest {
        let tenants = &self.world.scenario.tenants;
        let tenant = tenants[self.dice.below(tenants.len())].id.clone();
        let amount = self.dice.between(1, 25);
        let least = if self.dice.percent(50) { amount } else { self.dice.between(1, amount) };
        PermitRequest {
            tenant,
            name: budget(BUDGETS[self.dice.below(BUDGETS.len())].0),
            amount: Amount::from_micros(amount.into()),
            least: Amount::from_micros(least.into()),
            ttl: self.dice.millis(300, 3_000),
            request: id.parse().expect("it is a name"),
            run: None,
            key: None,
        }
    }

    /// Asks again until the store answers; the same request is one permit.
    async fn reserve(&mut self, request: &PermitRequest) -> Option<Permit> {
        for _ in 0..TRIES_MAX {
            let Some(instance) = self.world.instance(&mut self.dice) else {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            };
            let (control, request) = (instance.control.clone(), request.clone());
            match instance.call(async move { control.budgets.reserve(request).await }).await {
                Some(Ok(PermitGrant { permit, .. })) => return Some(permit),
                Some(Err(BudgetError::Store(StoreError::Unavailable { .. }))) | None => {
                    self.world.checker.with(|checker| checker.counts.answers_lost += 1);
                }
                Some(Err(_)) => return None,
            }
        }
        None
    }

    async fn spend(&mut self, request: &PermitRequest, permit: &Permit) {
        for _ in 0..self.dice.between(0, 2) {
            tokio::time::sleep(self.dice.millis(50, 2_000)).await;
            if self.dice.percent(50) {
                let ttl = request.ttl;
                self.call(request, permit, |control, place, permit| {
                    Box::pin(async move { control.budgets.renew(place, permit, ttl).await.map(drop) })
                })
                .await;
            }
        }
        match self.dice.below(10) {
            // It is never heard of again.
            0 | 1 => {}
            2 | 3 => {
                self.call(request, permit, |control, place, permit| {
                    Box::pin(async move { control.budgets.release(place, permit).await.map(drop) })
                })
                .await;
            }
            _ => {
                let amount = Amount::from_micros(self.dice.between(0, 30).into());
                // Now and then it is settled by two who do not know of each other.
                for _ in 0..self.dice.between(1, 2) {
                    self.call(request, permit, |control, place, permit| {
                        Box::pin(async move { control.budgets.settle(place, permit, amount).await.map(drop) })
                    })
                    .await;
                }
            }
        }
    }

    /// Makes the call again until the store answers.
    async fn call(
        &mut self,
        request: &PermitRequest,
        permit: &Permit,
        call: impl Fn(
            Arc<Control>,
            (TenantId, BudgetName),
            PermitId,
        ) -> BoxFuture<'static, Result<(), StoreError>>,
    ) {
        for _ in 0..TRIES_MAX {
            let Some(instance) = self.world.instance(&mut self.dice) else { return };
            let place = (request.tenant.clone(), request.name.clone());
            let called = instance.call(call(instance.control.clone(), place, permit.id.clone())).await;
            if !matches!(called, None | Some(Err(StoreError::Unavailable { .. }))) {
                return;
            }
        }
    }
}
