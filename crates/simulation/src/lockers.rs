//! Those who take locks: they wait in line, hold on too long, ask again when no answer comes, or vanish.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::locks::Acquired;
use interlock_control::locks::UserLockRequest;
use interlock_model::LockToken;
use interlock_model::lock::{Grant, LockMode, LockName};
use tokio_util::sync::CancellationToken;

use crate::dice::{Actor, Dice};
use crate::world::World;

pub(crate) struct Locker {
    world: Arc<World>,
    name: String,
    dice: Dice,
}

/// Few, so that they meet.
const RESOURCES: usize = 2;

/// How often a call that got no answer is made again at most.
const TRIES_MAX: u32 = 3;

/// Once faults have stopped, every waiter has had its turn after this: the leases and silences that must expire, and a few
/// waiters that come first, fit in several times.
const CALM_WAIT: Duration = Duration::from_mins(1);

impl Locker {
    pub(crate) fn new(world: Arc<World>, number: usize) -> Self {
        let dice = Dice::of(Actor::Locker(number), world.seed);
        Self { name: format!("l{number}"), dice, world }
    }

    /// Takes a few locks and is done.
    pub(crate) async fn act(mut self) -> Self {
        for round in 0..self.world.scenario.actions {
            tokio::time::sleep(self.dice.millis(0, 1_500)).await;
            let asked = self.ask(&format!("{}-{round}", self.name));
            if let Some(grant) = self.acquire(&asked).await {
                self.hold(&asked, grant).await;
            }
        }
        self
    }

    /// With nothing going wrong any more, everybody gets what it waits for.
    pub(crate) async fn act_in_the_calm(mut self) {
        let mut asked = self.ask(&format!("{}-calm", self.name));
        asked.wait = CALM_WAIT;
        match self.acquire(&asked).await {
            Some(grant) => drop(self.end(&asked.lock, grant.token).await),
            None => self.world.checker.with(|checker| checker.was_never_served(&self.name, &asked.lock)),
        }
    }

    fn ask(&mut self, request: &str) -> UserLockRequest {
        let tenants = &self.world.scenario.tenants;
        let tenant = tenants[self.dice.below(tenants.len())].id.clone();
        let resource = format!("r/{}", self.dice.below(RESOURCES)).parse().expect("it is a name");
        UserLockRequest {
            lock: LockName::Of(tenant, resource),
            owner: self.name.parse().expect("it is a name"),
            mode: if self.dice.percent(30) { LockMode::Shared } else { LockMode::Exclusive },
            ttl: self.dice.millis(300, 3_000),
            wait: if self.dice.percent(70) { self.dice.millis(500, 8_000) } else { Duration::ZERO },
            request: Some(request.parse().expect("it is a name")),
            held: None,
        }
    }

    async fn acquire(&mut self, asked: &UserLockRequest) -> Option<Grant> {
        // In the calm, each instance may still die once, at a moment that was chosen before.
        let deaths = if self.world.is_calm() { self.world.scenario.instances } else { 0 };
        for _ in 0..TRIES_MAX as usize + deaths {
            let Some(instance) = self.world.instance(&mut self.dice) else {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            };
            let (control, asked) = (instance.control.clone(), asked.clone());
            // A client may hang up while it waits.
            let patience = if self.world.is_calm() { CALM_WAIT * 2 } else { self.dice.millis(100, 10_000) };
            let call = async move { control.locks.acquire(asked, &CancellationToken::new()).await };
            let call = instance.call(async move { tokio::time::timeout(patience, call).await });
            match call.await {
                Some(Ok(Ok(Acquired::Granted(grant)))) => return Some(grant),
                Some(Ok(Ok(_))) => return None,
                Some(Ok(Err(_)) | Err(_)) | None => {
                    self.world.checker.with(|checker| checker.counts.answers_lost += 1);
                }
            }
        }
        None
    }

    async fn hold(&mut self, asked: &UserLockRequest, grant: Grant) {
        // Some work for so long that they are late; some are never heard of again.
        for _ in 0..self.dice.between(0, 2) {
            tokio::time::sleep(self.dice.millis(50, 2_000)).await;
            let (lock, token, ttl) = (asked.lock.clone(), grant.token.clone(), asked.ttl);
            if let Some(instance) = self.world.instance(&mut self.dice) {
                let control = instance.control.clone();
                drop(instance.call(async move { control.locks.renew(&lock, &token, ttl).await }).await);
            }
        }
        if !self.dice.percent(15) {
            drop(self.end(&asked.lock, grant.token).await);
        }
    }

    /// Releases it, again until the store answers.
    async fn end(&mut self, lock: &LockName, token: LockToken) -> Option<Result<(), StoreError>> {
        for _ in 0..TRIES_MAX {
            let (lock, token) = (lock.clone(), token.clone());
            let instance = self.world.instance(&mut self.dice)?;
            let control = instance.control.clone();
            let answer = instance.call(async move { control.locks.release(&lock, &token).await }).await;
            if !matches!(answer, None | Some(Err(StoreError::Unavailable { .. }))) {
                return answer;
            }
        }
        None
    }
}
