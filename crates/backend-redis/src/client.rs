//! Calls scripts, and repeats a call whose answer was lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use interlock_backend::clock::SystemClock;
use interlock_backend::{Effect, StoreError};
use interlock_model::{Clock, Fence, TenantId, Timestamp};
use rand::RngExt;
use redis::Value;

use crate::connect::{Connection, SendError, SendErrorKind};
use crate::known::Known;
use crate::reply::{Reply, Unreadable};
use crate::rhythm::Rhythm;
use crate::script::{Call, Header, Home, Missing};

/// The hash tag of what belongs to no tenant. Tenants cannot have this name.
const SYSTEM_TAG: &str = "{:system}";

/// How often a call whose answer was lost is repeated, under the same request id.
const REPEATS_MAX: u32 = 2;

/// The longest pause before the first repetition, doubled each time.
const PAUSE_BASE: Duration = Duration::from_millis(25);

/// The connection, and what this process knows of the store beside it.
pub(crate) struct ScriptClient {
    connection: Connection,
    /// A test's clock; none for the store's own, which is the only one in production.
    clock: Option<Arc<dyn Clock>>,
    known: Known,
    rhythm: Rhythm,
    polls: AtomicU64,
}

impl ScriptClient {
    pub(crate) fn new(connection: Connection, clock: Option<Arc<dyn Clock>>) -> Self {
        let known = Known::new(connection.store_changes());
        Self { connection, clock, known, rhythm: Rhythm::default(), polls: AtomicU64::new(0) }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn known(&self) -> &Known {
        &self.known
    }

    pub(crate) fn rhythm(&self) -> &Rhythm {
        &self.rhythm
    }

    /// By the clock of this process, which decides nothing.
    pub(crate) fn own_time(&self) -> Timestamp {
        self.clock.as_ref().map_or_else(|| SystemClock.now(), |clock| clock.now())
    }

    /// Commands that were sent, without polls.
    pub(crate) fn commands_sent(&self) -> u64 {
        self.connection.commands_sent().saturating_sub(self.polls.load(Ordering::Relaxed))
    }

    fn fence_floor(&self) -> u64 {
        self.known.fence_floor(self.connection.store_changes())
    }

    /// Calls a script. If its answer is lost, it is called again under the same request id.
    pub(crate) async fn call(&self, call: Call) -> Result<Reply, StoreError> {
        self.call_as(call, &new_request()).await
    }

    /// The same, under a request id that the caller knows.
    pub(crate) async fn call_as(&self, call: Call, request: &str) -> Result<Reply, StoreError> {
        let value = self.run(&call, request, REPEATS_MAX).await?;
        judge(&call, value)
    }

    /// Calls a script once, for callers that repeat by themselves.
    pub(crate) async fn call_once(&self, call: Call) -> Result<Value, StoreError> {
        self.run(&call, "", 0).await
    }

    async fn run(&self, call: &Call, request: &str, repeats_max: u32) -> Result<Value, StoreError> {
        let mut is_unknown = false;
        let mut attempt = 0;
        loop {
            let error = match self.list_tenant(call).await {
                Ok(()) => match self.send(call, request, is_unknown).await {
                    Ok(value) => return Ok(value),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            is_unknown |= call.writes && error.effect == Effect::Unknown;
            if attempt == repeats_max {
                let effect = if is_unknown { Effect::Unknown } else { Effect::NotDone };
                return Err(StoreError::Unavailable { action: call.action, effect, reason: error.reason });
            }
            attempt += 1;
            pause(attempt).await;
        }
    }

    async fn send(&self, call: &Call, request: &str, is_repeat: bool) -> Result<Value, SendError> {
        let (prefix, locks) = (self.connection.key_prefix(), self.connection.lock_prefix());
        let tag = match &call.home {
            Home::Tenant(tenant) => format!("{{{tenant}}}"),
            Home::System => SYSTEM_TAG.to_owned(),
            Home::Stage(stage) => format!("{{{locks}{}}}", stage.key()),
        };
        let header = Header {
            key: &format!("{prefix}wf:tenant:{tag}"),
            prefix,
            lock_prefix: locks,
            is_cluster: self.connection.is_cluster(),
            tag: &tag,
            now: self.clock.as_ref().map(|clock| clock.now().as_millis()),
            fence_floor: self.fence_floor(),
            request,
            is_repeat,
        };
        match self.evaluate(&header, call, false).await {
            // A server that has started anew, or a new release of ours: from now on it knows the script.
            Err(SendError { kind: SendErrorKind::NoScript, .. }) => {
                let header = Header { fence_floor: self.fence_floor(), ..header };
                self.evaluate(&header, call, true).await
            }
            answered => answered,
        }
    }

    async fn evaluate(&self, header: &Header<'_>, call: &Call, in_full: bool) -> Result<Value, SendError> {
        self.polls.fetch_add(u64::from(call.is_poll), Ordering::Relaxed);
        let command = header.command(call.script, &call.arguments, in_full);
        self.connection.send(&command, call.writes).await
    }

    /// Puts the tenant into the list of all before its first write: the search for work goes through that list.
    async fn list_tenant(&self, call: &Call) -> Result<(), SendError> {
        match &call.home {
            Home::Tenant(tenant) if call.writes => self.list_tenant_once(tenant).await,
            Home::Tenant(_) | Home::System | Home::Stage(_) => Ok(()),
        }
    }

    pub(crate) async fn list_tenant_once(&self, tenant: &TenantId) -> Result<(), SendError> {
        if self.known.is_listed(tenant) {
            return Ok(());
        }
        let mut command = redis::cmd("ZADD");
        command.arg(self.system_key("sys:tenants")).arg(0).arg(tenant.as_str());
        self.connection.send(&command, true).await?;
        self.known.listed(tenant);
        Ok(())
    }

    /// A key of what belongs to no tenant.
    pub(crate) fn system_key(&self, name: &str) -> String {
        format!("{}{name}:{SYSTEM_TAG}", self.connection.key_prefix())
    }

    pub(crate) fn count_poll(&self) {
        self.polls.fetch_add(1, Ordering::Relaxed);
    }
}

/// An id for one call, so that it can be repeated.
pub(crate) fn new_request() -> String {
    format!("{:016x}", rand::rng().random::<u64>())
}

/// Anywhere between nothing and a bound that doubles: those who failed together do not come back together.
async fn pause(attempt: u32) {
    let bound = PAUSE_BASE * 2u32.saturating_pow(attempt.saturating_sub(1));
    let pause = rand::rng().random_range(Duration::ZERO..=bound);
    tokio::time::sleep(pause).await;
}

/// The answer, or what the script refused.
fn judge(call: &Call, value: Value) -> Result<Reply, StoreError> {
    let name = call.script.name;
    let unreadable = |error| damaged(name, error);
    let mut reply = Reply::unpack(name, value).map_err(unreadable)?;
    let Some(refusal) = reply.optional_text("refused").map_err(unreadable)? else { return Ok(reply) };
    match (refusal.as_str(), &call.missing) {
        ("missing", Missing::Thing { what, id }) => Err(StoreError::NotFound { what, id: id.clone() }),
        ("fenced", _) => {
            let current = reply.fence("current").map_err(unreadable)?;
            let held = reply.optional("held").map_err(unreadable)?.map(Fence::new);
            Err(StoreError::Fenced { held: held.unwrap_or(call.held), current })
        }
        ("conflict", _) => Err(StoreError::Conflict(reply.text("reason").map_err(unreadable)?)),
        ("damaged", _) => Err(unreadable(Unreadable(reply.text("reason").map_err(unreadable)?))),
        (other, _) => Err(unreadable(Unreadable(format!("{name} refused with {other}")))),
    }
}

/// An unreadable reply as an error of the contract.
pub(crate) fn damaged(script: &'static str, error: Unreadable) -> StoreError {
    StoreError::Damaged { table: "redis", key: script.to_owned(), reason: error.0 }
}
