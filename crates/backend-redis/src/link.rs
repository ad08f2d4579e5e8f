//! From a call to an answer: the way to the scripts.

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
use crate::rhythm::Rhythm;
use crate::script::{Call, Fields, Header, Home, Missing, Unreadable};

/// The hash tag of what belongs to no tenant. Tenants cannot have this name.
const SYSTEM_TAG: &str = "{:system}";

/// How often a call whose answer was lost is asked again, under the same request id.
const REPEATS_MAX: u32 = 2;

/// The longest pause before asking again, doubled each time.
const PAUSE_BASE: Duration = Duration::from_millis(25);

/// The connection, and what this process knows of the store beside it.
pub(crate) struct Link {
    connection: Connection,
    /// A test's clock; none for the store's own, which is the only one in production.
    clock: Option<Arc<dyn Clock>>,
    known: Known,
    rhythm: Rhythm,
    polls: AtomicU64,
}

impl Link {
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

    /// Commands that were sent to get something done: looks at whether there is something to do are not among them.
    pub(crate) fn commands_sent(&self) -> u64 {
        self.connection.commands_sent().saturating_sub(self.polls.load(Ordering::Relaxed))
    }

    fn fence_floor(&self) -> u64 {
        self.known.fence_floor(self.connection.store_changes())
    }

    /// Runs a verb. A lost answer is asked for again, under the same request id.
    pub(crate) async fn call(&self, call: Call) -> Result<Fields, StoreError> {
        self.call_as(call, &new_request()).await
    }

    /// The same, under a request id that the caller knows.
    pub(crate) async fn call_as(&self, call: Call, request: &str) -> Result<Fields, StoreError> {
        let value = self.run(&call, request, REPEATS_MAX).await?;
        judge(&call, value)
    }

    /// Runs a verb once, for callers that repeat by themselves.
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

    /// Puts the tenant into the list of all, before its first write: whoever looks for work goes through that list.
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

/// A name for one call, so that it can be asked again.
pub(crate) fn new_request() -> String {
    format!("{:016x}", rand::rng().random::<u64>())
}

/// Anywhere between nothing and a bound that doubles: those who failed together do not come back together.
async fn pause(attempt: u32) {
    let bound = PAUSE_BASE * 2u32.saturating_pow(attempt.saturating_sub(1));
    let pause = rand::rng().random_range(Duration::ZERO..=bound);
    tokio::time::sleep(pause).await;
}

/// What a script's first word means.
fn judge(call: &Call, value: Value) -> Result<Fields, StoreError> {
    let name = call.script.name;
    let mut fields = Fields::of(name, value).map_err(|error| damaged(name, error))?;
    let word = fields.text().map_err(|error| damaged(name, error))?;
    match (word.as_str(), &call.missing) {
        ("ok", _) => Ok(fields),
        ("missing", Missing::Thing { what, id }) => Err(StoreError::NotFound { what, id: id.clone() }),
        ("fenced", _) => {
            let read = |mut fields: Fields| Ok((fields.fence()?, fields.optional("fence")?.map(Fence::new)));
            let (current, held) = read(fields).map_err(|error| damaged(name, error))?;
            Err(StoreError::Fenced { held: held.unwrap_or(call.held), current })
        }
        ("conflict", _) => Err(StoreError::Conflict(fields.text().map_err(|error| damaged(name, error))?)),
        ("damaged", _) => {
            let reason = fields.text().map_err(|error| damaged(name, error))?;
            Err(damaged(name, Unreadable(reason)))
        }
        (other, _) => Err(damaged(name, Unreadable(format!("{name} answered {other}")))),
    }
}

/// What cannot be read, as the contract tells it.
pub(crate) fn damaged(script: &'static str, error: Unreadable) -> StoreError {
    StoreError::Damaged { table: "redis", key: script.to_owned(), reason: error.0 }
}
