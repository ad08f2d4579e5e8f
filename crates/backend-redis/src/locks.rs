//! Locks, for users and for our own stages: one script a verb, the record in hidden keys, the holder in one that people
//! read.

use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::locks::{
    Acquire, Acquired, Busy, ForcedRelease, LINE_SHOWN_MAX, LockDetail, LockQuota, LockStore, LockView,
    SWEEP_MAX, Turn,
};
use interlock_backend::{Page, PageRequest, StoreError};
use interlock_model::lock::{
    Grant, HISTORY_KEPT, HISTORY_MAX, LockEnd, LockEvent, LockMode, LockName, SHARING_MAX,
};
use interlock_model::time::millis;
use interlock_model::{LockRequest, LockToken, Resource, TenantId};

use crate::runs::found;
use crate::script::{Call, Fields, Home, Script, Unreadable};
use crate::store::RedisStore;
use crate::{encode, scripts};

/// Numbers of events are below it: Lua's stay exact up to there.
const EVENTS_MAX: u64 = 1 << 53;

/// The locks that a tenant's users take.
const USER: &str = "user";

impl RedisStore {
    /// Ends a hold, whoever does.
    async fn end_hold(
        &self,
        lock: &LockName,
        token: &LockToken,
        (action, end): (&'static str, LockEnd),
    ) -> Result<Turn<()>, StoreError> {
        let call = call(&scripts::RELEASE_LOCK, action, lock).with(token.as_str()).with(encode::json(&end));
        self.ask(call, |mut fields| read_turn(&mut fields, |_| Ok(()))).await
    }
}

#[async_trait]
impl LockStore for RedisStore {
    async fn acquire(&self, acquire: &Acquire) -> Result<Turn<Acquired>, StoreError> {
        let read = |mut fields: Fields| read_turn(&mut fields, |fields| read_acquired(fields.list()?));
        let turn = self.ask(acquire_call(acquire), read).await?;
        if let Acquired::Granted(grant) = &turn.answer {
            self.link.known().saw_fence(grant.fence);
        }
        Ok(turn)
    }

    async fn renew(
        &self,
        lock: &LockName,
        token: &LockToken,
        ttl: Duration,
    ) -> Result<Turn<Grant>, StoreError> {
        let call = call(&scripts::RENEW_LOCK, "renew a lock", lock).with(token.as_str()).with(millis(ttl));
        let turn = self.ask(call, |mut fields| read_turn(&mut fields, read_grant)).await?;
        self.link.known().saw_fence(turn.answer.fence);
        Ok(turn)
    }

    async fn release(&self, lock: &LockName, token: &LockToken) -> Result<Turn<()>, StoreError> {
        self.end_hold(lock, token, ("release a lock", LockEnd::Released)).await
    }

    async fn withdraw(
        &self,
        lock: &LockName,
        request: &LockRequest,
        told: &LockToken,
    ) -> Result<Turn<()>, StoreError> {
        let call = call(&scripts::WITHDRAW_LOCK, "withdraw from a lock", lock);
        let call = call.with(request.as_str()).with(told.as_str());
        self.ask(call, |mut fields| read_turn(&mut fields, |_| Ok(()))).await
    }

    async fn force_release(&self, forced: &ForcedRelease) -> Result<Turn<()>, StoreError> {
        let end = LockEnd::ForceReleased { by: forced.by.clone(), reason: forced.reason.clone() };
        self.end_hold(&forced.lock, &forced.expected, ("end a hold", end)).await
    }

    async fn lock(&self, lock: &LockName) -> Result<Option<LockDetail>, StoreError> {
        let call = call(&scripts::LOCK_DETAIL, "read a lock", lock).reading().with(LINE_SHOWN_MAX);
        let read = |mut fields: Fields| {
            let view = read_view(lock.resource(), &mut fields)?;
            Ok(LockDetail { view, line: fields.list()?.each(|waiter| waiter.json("waiter"))? })
        };
        found(self.ask(call, read).await)
    }

    async fn locks(&self, tenant: &TenantId, page: &PageRequest) -> Result<Page<LockView>, StoreError> {
        let call = Call::read(&scripts::LOCK_LIST, "list locks", tenant);
        let call = of_users(call).with(page.after.as_deref()).with(page.limit);
        let read = |item: &mut Fields| {
            let mut item = item.list()?;
            let name = item.text()?;
            read_view(resource_of(&name).ok_or_else(|| item.unreadable("resource"))?, &mut item)
        };
        self.ask(call, |fields| fields.page(read)).await
    }

    async fn lock_history(&self, lock: &LockName, page: &PageRequest) -> Result<Page<LockEvent>, StoreError> {
        let before = page.after.as_ref().and_then(|after| after.parse().ok()).unwrap_or(EVENTS_MAX);
        let call = call(&scripts::LOCK_HISTORY, "read a lock's history", lock).reading();
        let call = call.with(before.min(EVENTS_MAX)).with(page.limit);
        self.ask(call, |fields| fields.page(|event| event.json("event"))).await
    }
}

/// A verb on one lock, as `lua/shared/lock_record.lua` reads it.
pub(crate) fn call(script: &'static Script, action: &'static str, lock: &LockName) -> Call {
    let (home, name, kind) = match lock {
        LockName::Of(tenant, resource) => (Home::Tenant(tenant.clone()), name_of(resource), USER),
        LockName::Stage(stage) => (Home::Stage(*stage), stage.key().to_owned(), "stage"),
        // No resource has this name: a '%' in one is written as two digits more.
        LockName::Admission(tenant) => (Home::Tenant(tenant.clone()), "%admission".to_owned(), "admission"),
    };
    bounded(Call::new(script, action, home).of("lock", lock.resource()).with(name).with(kind))
}

/// A verb on all locks of a tenant's users.
pub(crate) fn of_users(call: Call) -> Call {
    bounded(call.with("").with(USER))
}

fn bounded(call: Call) -> Call {
    call.with(SHARING_MAX).with(HISTORY_MAX).with(millis(HISTORY_KEPT))
}

/// The name of a resource in keys, and in cursors, where '/' tells parts apart.
pub(crate) fn name_of(resource: &Resource) -> String {
    resource.as_str().replace('%', "%25").replace('/', "%2F")
}

pub(crate) fn resource_of(name: &str) -> Option<Resource> {
    name.replace("%2F", "/").replace("%25", "%").parse().ok()
}

fn acquire_call(asked: &Acquire) -> Call {
    let mode = match asked.mode {
        LockMode::Exclusive => "exclusive",
        LockMode::Shared => "shared",
    };
    call(&scripts::ACQUIRE_LOCK, "acquire a lock", &asked.lock)
        .with(asked.owner.as_str())
        .with(mode)
        .with(millis(asked.ttl))
        .with(asked.request.as_str())
        .with(asked.call.as_str())
        .with(asked.held.as_ref().map(LockToken::as_str))
        .with(asked.stay.map(millis))
        .with(asked.limits.held_max)
        .with(asked.limits.waiting_max)
        .with(asked.limits.line_max)
        .with(SWEEP_MAX)
}

/// Whose turn it is, then the answer.
fn read_turn<T>(
    fields: &mut Fields,
    read: impl FnOnce(&mut Fields) -> Result<T, Unreadable>,
) -> Result<Turn<T>, Unreadable> {
    let next = fields.optional("request")?;
    Ok(Turn { answer: read(fields)?, next })
}

fn read_grant(fields: &mut Fields) -> Result<Grant, Unreadable> {
    fields.json("grant")
}

fn read_acquired(mut fields: Fields) -> Result<Acquired, Unreadable> {
    match fields.text()?.as_str() {
        "granted" => Ok(Acquired::Granted(read_grant(&mut fields)?)),
        "waiting" => Ok(Acquired::Waiting(read_busy(&mut fields)?)),
        "refused" => Ok(Acquired::Refused(read_busy(&mut fields)?)),
        "over_quota" => {
            let what = match fields.text()?.as_str() {
                "held" => LockQuota::Held,
                "waiting" => LockQuota::Waiting,
                _ => return Err(fields.unreadable("quota")),
            };
            Ok(Acquired::OverQuota { what, limit: fields.parsed("limit")?, current: fields.parsed("count")? })
        }
        _ => Err(fields.unreadable("answer")),
    }
}

fn read_busy(fields: &mut Fields) -> Result<Busy, Unreadable> {
    Ok(Busy {
        holder: fields.optional("owner")?,
        held_for: Duration::from_millis(fields.parsed("duration")?),
        position: fields.parsed("place")?,
        may_change_in: fields.optional("duration")?.map(Duration::from_millis),
        is_line_full: fields.text()? == "1",
    })
}

fn read_view(resource: Resource, fields: &mut Fields) -> Result<LockView, Unreadable> {
    let holders = fields.list()?.each(read_grant)?;
    Ok(LockView { resource, holders, waiting: fields.parsed("count")? })
}
