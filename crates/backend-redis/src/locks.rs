//! Locks, for users and for our own stages: one script a verb, the record in hidden keys, the holder in one that people
//! read.

use std::time::Duration;

use interlock_backend::Page;
use interlock_backend::Verb;
use interlock_backend::locks::{
    Acquired, Busy, LINE_SHOWN_MAX, LockDetail, LockQuota, LockView, SWEEP_MAX, Turn,
};
use interlock_backend::verbs::{
    AcquireLock, ForceReleaseLock, ListLockHistory, ListLocks, ReadLock, ReleaseLock, RenewLock, WithdrawLock,
};
use interlock_model::Resource;
use interlock_model::lock::{
    Grant, HISTORY_KEPT, HISTORY_MAX, LockEnd, LockEvent, LockMode, LockName, SHARING_MAX,
};

use crate::client::ScriptClient;
use crate::encode;
use crate::known::Known;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Home, Script, script};
use crate::store::Scripted;

/// Numbers of events are below it: Lua's stay exact up to there.
const EVENTS_MAX: u64 = 1 << 53;

/// The locks that a tenant's users acquire.
const USER: &str = "user";

impl Scripted for AcquireLock {
    fn script() -> &'static Script {
        script!("acquire_lock")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        let mode = match self.mode {
            LockMode::Exclusive => "exclusive",
            LockMode::Shared => "shared",
        };
        call::<Self>(Self::script(), &self.lock)
            .with("owner", &self.owner)
            .with("mode", mode)
            .with("ttl", self.ttl)
            .with("lock_request", &self.request)
            .with("token", &self.call)
            .with("held", self.held.as_ref())
            .with("stay", self.stay)
            .with("held_max", self.limits.held_max)
            .with("waiting_max", self.limits.waiting_max)
            .with("line_max", self.limits.line_max)
            .with("sweep_max", SWEEP_MAX)
    }

    fn read(&self, mut reply: Reply) -> Result<Turn<Acquired>, Unreadable> {
        let answer = match reply.text("outcome")?.as_str() {
            "granted" => Acquired::Granted(reply.json("grant")?),
            "waiting" => Acquired::Waiting(read_busy(&mut reply)?),
            "refused" => Acquired::Refused(read_busy(&mut reply)?),
            "over_quota" => Acquired::OverQuota {
                what: match reply.text("quota")?.as_str() {
                    "held" => LockQuota::Held,
                    "waiting" => LockQuota::Waiting,
                    _ => return Err(reply.unreadable("quota")),
                },
                limit: reply.parsed("limit")?,
                current: reply.parsed("current")?,
            },
            _ => return Err(reply.unreadable("outcome")),
        };
        read_turn(&mut reply, answer)
    }

    fn learn(&self, turn: &Turn<Acquired>, known: &Known) {
        if let Acquired::Granted(grant) = &turn.answer {
            known.saw_fence(grant.fence);
        }
    }
}

impl Scripted for RenewLock {
    fn script() -> &'static Script {
        script!("renew_lock")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        call::<Self>(Self::script(), &self.lock).with("token", &self.token).with("ttl", self.ttl)
    }

    fn read(&self, mut reply: Reply) -> Result<Turn<Grant>, Unreadable> {
        let grant = reply.json("grant")?;
        read_turn(&mut reply, grant)
    }

    fn learn(&self, turn: &Turn<Grant>, known: &Known) {
        known.saw_fence(turn.answer.fence);
    }
}

impl Scripted for ReleaseLock {
    fn script() -> &'static Script {
        script!("release_lock")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        call::<Self>(Self::script(), &self.lock)
            .with("token", &self.token)
            .with("ending", encode::json(&LockEnd::Released))
    }

    fn read(&self, mut reply: Reply) -> Result<Turn<()>, Unreadable> {
        read_turn(&mut reply, ())
    }
}

/// The same step as a release, with another end.
impl Scripted for ForceReleaseLock {
    fn script() -> &'static Script {
        ReleaseLock::script()
    }

    fn call(&self, _: &ScriptClient) -> Call {
        let end = LockEnd::ForceReleased { by: self.by.clone(), reason: self.reason.clone() };
        call::<Self>(Self::script(), &self.lock)
            .with("token", &self.expected)
            .with("ending", encode::json(&end))
    }

    fn read(&self, mut reply: Reply) -> Result<Turn<()>, Unreadable> {
        read_turn(&mut reply, ())
    }
}

impl Scripted for WithdrawLock {
    fn script() -> &'static Script {
        script!("withdraw_lock")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        call::<Self>(Self::script(), &self.lock).with("lock_request", &self.request).with("token", &self.call)
    }

    fn read(&self, mut reply: Reply) -> Result<Turn<()>, Unreadable> {
        read_turn(&mut reply, ())
    }
}

impl Scripted for ReadLock {
    fn script() -> &'static Script {
        script!("read_lock")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        call::<Self>(Self::script(), &self.lock).with("line_shown_max", LINE_SHOWN_MAX)
    }

    fn read(&self, reply: Reply) -> Result<Option<LockDetail>, Unreadable> {
        reply.when_found(|mut reply| {
            let line = reply.each("line", |waiter| waiter.into_json("waiter"))?;
            Ok(LockDetail { view: read_view(self.lock.resource(), &mut reply)?, line })
        })
    }
}

impl Scripted for ListLocks {
    fn script() -> &'static Script {
        script!("list_locks")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        of_users(Call::to::<Self>(&self.tenant)).page(&self.page)
    }

    fn read(&self, reply: Reply) -> Result<Page<LockView>, Unreadable> {
        reply.page(|mut item| {
            let name = item.text("lock")?;
            read_view(resource_of(&name).ok_or_else(|| item.unreadable("lock"))?, &mut item)
        })
    }
}

impl Scripted for ListLockHistory {
    fn script() -> &'static Script {
        script!("list_lock_history")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        let before = self.page.after.as_ref().and_then(|after| after.parse().ok()).unwrap_or(EVENTS_MAX);
        call::<Self>(Self::script(), &self.lock)
            .with("before", before.min(EVENTS_MAX))
            .with("limit", self.page.limit)
    }

    fn read(&self, reply: Reply) -> Result<Page<LockEvent>, Unreadable> {
        reply.page(|event| event.into_json("event"))
    }
}

/// A call about one lock, as `lua/shared/lock_record.lua` reads it.
pub(crate) fn call<V: Verb>(script: &'static Script, lock: &LockName) -> Call {
    let (home, name, kind) = match lock {
        LockName::Of(tenant, resource) => (Home::Tenant(tenant.clone()), name_of(resource), USER),
        LockName::Stage(stage) => (Home::Stage(*stage), stage.key().to_owned(), "stage"),
        // No resource has this name: a '%' in one is written as two digits more.
        LockName::Admission(tenant) => (Home::Tenant(tenant.clone()), "%admission".to_owned(), "admission"),
    };
    let call = Call::for_verb::<V>(script, home).of("lock", lock.resource());
    bounded(call.with("lock", name).with("lock_kind", kind))
}

/// A call about all locks of a tenant's users.
pub(crate) fn of_users(call: Call) -> Call {
    bounded(call.with("lock_kind", USER))
}

fn bounded(call: Call) -> Call {
    call.with("sharing_max", SHARING_MAX).with("history_max", HISTORY_MAX).with("history_kept", HISTORY_KEPT)
}

/// The name of a resource in keys, and in cursors, where '/' separates parts.
pub(crate) fn name_of(resource: &Resource) -> String {
    resource.as_str().replace('%', "%25").replace('/', "%2F")
}

pub(crate) fn resource_of(name: &str) -> Option<Resource> {
    name.replace("%2F", "/").replace("%25", "%").parse().ok()
}

fn read_turn<T>(reply: &mut Reply, answer: T) -> Result<Turn<T>, Unreadable> {
    Ok(Turn { answer, next: reply.optional("next")? })
}

fn read_busy(reply: &mut Reply) -> Result<Busy, Unreadable> {
    Ok(Busy {
        holder: reply.optional("holder")?,
        held_for: reply.duration("held_for")?,
        position: reply.parsed("position")?,
        may_change_in: reply.optional("may_change_in")?.map(Duration::from_millis),
        is_line_full: reply.flag("is_line_full"),
    })
}

fn read_view(resource: Resource, reply: &mut Reply) -> Result<LockView, Unreadable> {
    let holders = reply.each("holders", |grant| grant.into_json("grant"))?;
    Ok(LockView { resource, holders, waiting: reply.parsed("waiting")? })
}
