//! Calls scripts, and repeats a call whose answer was lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use interlock_backend::clock::SystemClock;
use interlock_backend::{Effect, StoreError};
use interlock_model::limit::{RUNS_MAX_DEFAULT, TENANTS_MAX_DEFAULT};
use interlock_model::lock::LockName;
use interlock_model::time::millis;
use interlock_model::{Clock, TenantId, Timestamp};
use rand::RngExt;
use redis::{Cmd, Value};
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::connect::{Connection, SendError, SendErrorKind};
use crate::known::Known;
use crate::reply;
use crate::rhythm::Rhythm;
use crate::script::{Arguments, Call, Header, Home};
use crate::texts::{Elsewhere, PIECES_AT_ONCE, Sent};

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
    /// Whose piece of a large document is on its way.
    pieces: Semaphore,
}

impl ScriptClient {
    pub(crate) fn new(connection: Connection, clock: Option<Arc<dyn Clock>>) -> Self {
        let known = Known::new(connection.store_changes());
        let (rhythm, polls) = (Rhythm::default(), AtomicU64::new(0));
        Self { connection, clock, known, rhythm, polls, pieces: Semaphore::new(PIECES_AT_ONCE) }
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

    pub(crate) fn pieces(&self) -> &Semaphore {
        &self.pieces
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

    /// Calls a script and reads its answer. If the reply is lost, it is called again under the same request id.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T, StoreError> {
        let reply = self.call_as(&call, &new_request()).await?;
        reply::read(&call, &reply, |reply| T::deserialize(reply))
    }

    /// The reply of a script, under a request id that the caller knows.
    pub(crate) async fn call_as(&self, call: &Call, request: &str) -> Result<Value, StoreError> {
        self.run(call, request, REPEATS_MAX).await
    }

    /// Calls a script once, for callers that repeat by themselves.
    pub(crate) async fn call_once(&self, call: &Call) -> Result<Value, StoreError> {
        self.run(call, "", 0).await
    }

    /// The reply to a command that changes nothing. If it is lost, the command is sent again.
    pub(crate) async fn read(&self, action: &'static str, command: &Cmd) -> Result<Value, StoreError> {
        let mut attempt = 0;
        loop {
            let error = match self.connection.send(command, false).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if attempt == REPEATS_MAX {
                return Err(StoreError::Unavailable {
                    action,
                    effect: Effect::NotDone,
                    reason: error.reason,
                });
            }
            attempt += 1;
            pause(attempt).await;
        }
    }

    async fn run(&self, call: &Call, request: &str, repeats_max: u32) -> Result<Value, StoreError> {
        let mut is_unknown = false;
        let mut attempt = 0;
        loop {
            let error = match self.list_tenant(call).await {
                Ok(None) => match self.send_whole(call, request, is_unknown).await {
                    Ok(reply) => match self.with_texts(reply).await {
                        Ok(reply) => return Ok(reply),
                        Err(error) => error,
                    },
                    Err(error) => error,
                },
                Ok(Some(refusal)) => return Err(refusal),
                Err(error) => error,
            };
            is_unknown |= call.writes && error.effect == Effect::Unknown;
            // To ask a full store again is of no use, and not to be known to have failed is worse than to be full.
            let is_full = error.effect == Effect::StorageFull;
            if attempt == repeats_max || is_full {
                let effect = match (is_unknown, is_full) {
                    (true, _) => Effect::Unknown,
                    (false, true) => Effect::StorageFull,
                    (false, false) => Effect::NotDone,
                };
                return Err(StoreError::Unavailable { action: call.action, effect, reason: error.reason });
            }
            attempt += 1;
            pause(attempt).await;
        }
    }

    /// The call, and what goes ahead of it.
    async fn send_whole(&self, call: &Call, request: &str, is_repeat: bool) -> Result<Value, SendError> {
        let sent = self.send_ahead(&call.home, &call.texts).await?;
        let sent = if sent.is_empty() { &call.sent } else { &sent };
        let reply = self.send(call, sent, request, is_repeat).await;
        if reply.is_err() {
            self.drop_sent(sent).await;
        }
        reply
    }

    /// The hash tag of keys.
    pub(crate) fn tag(&self, home: &Home) -> String {
        match home {
            Home::System => SYSTEM_TAG.to_owned(),
            // The key of a loop's lock has a name that people know and thus no tag: the name itself is the tag of all
            // that belongs to it.
            Home::Lock(LockName::Stage(stage)) => {
                format!("{{{}{}}}", self.connection.lock_prefix(), stage.key())
            }
            Home::Tenant(tenant) | Home::Lock(LockName::Of(tenant, _) | LockName::Admission(tenant)) => {
                format!("{{{tenant}}}")
            }
        }
    }

    /// `sent` is in Redis already.
    pub(crate) async fn send(
        &self,
        call: &Call,
        sent: &[Sent],
        request: &str,
        is_repeat: bool,
    ) -> Result<Value, SendError> {
        let (prefix, lock_prefix) = (self.connection.key_prefix(), self.connection.lock_prefix());
        let (limits, _) = self.known.system_limits();
        let tag = self.tag(&call.home);
        let (lock, lock_kind) = call.home.lock().unzip();
        let header = Header {
            key: &format!("{prefix}wf:tenant:{tag}"),
            prefix,
            lock_prefix,
            lock,
            lock_kind,
            is_cluster: self.connection.is_cluster(),
            tag: &tag,
            now: self.clock.as_ref().map(|clock| clock.now().as_millis()),
            fence_floor: self.fence_floor(),
            request,
            is_repeat,
            sent,
            runs_max: limits.runs_max.unwrap_or(RUNS_MAX_DEFAULT),
            on_full: limits.on_full,
            queued_max: limits.queued_max,
            queue_wait: limits.queue_wait.map(millis),
            queue_order: limits.queue_order,
            key_retention: limits.key_retention.map(millis),
            turn_bytes_max: limits.turn_bytes_max,
            run_bytes_max: limits.run_bytes_max,
            workflows_max: limits.workflows_max,
            workflow_versions_max: limits.workflow_versions_max,
            workers_max: limits.workers_max,
            gone_instances: self.known.gone_instances(),
            doubtful_leases: self.known.doubtful_leases(),
        };
        match self.evaluate(&header, call, false).await {
            // A server that was restarted, or a new release of ours: from now on it knows the script.
            Err(SendError { kind: SendErrorKind::NoScript, .. }) => {
                let header = Header { fence_floor: self.fence_floor(), ..header };
                self.evaluate(&header, call, true).await
            }
            answered => answered,
        }
    }

    /// The reply with the large texts that it names by their keys. If one of them was deleted since, the script answers
    /// otherwise when it is called again.
    async fn with_texts(&self, reply: Value) -> Result<Value, SendError> {
        let Value::Array(mut parts) = reply else { return Ok(reply) };
        let named: Vec<Elsewhere> = parts.split_off(1).into_iter().filter_map(Elsewhere::read).collect();
        let reads: Vec<_> = named.iter().map(|it| redis::cmd("GET").arg(&it.name).take()).collect();
        for (named, text) in named.iter().zip(self.connection.send_all(&reads).await) {
            // The script has done its part.
            let text = text.map_err(|error| SendError { effect: Effect::Unknown, ..error })?;
            let Value::BulkString(text) = text else { return Err(SendError::gone()) };
            parts.push(Value::BulkString(named.around(text)));
        }
        Ok(Value::Array(parts))
    }

    async fn evaluate(&self, header: &Header<'_>, call: &Call, in_full: bool) -> Result<Value, SendError> {
        self.polls.fetch_add(u64::from(call.is_poll), Ordering::Relaxed);
        let command = header.command(call, in_full);
        self.connection.send(&command, call.writes).await
    }

    /// Puts the tenant into the list of all before its first write: the search for work goes through that list.
    async fn list_tenant(&self, call: &Call) -> Result<Option<StoreError>, SendError> {
        match call.home.tenant() {
            Some(tenant) if call.writes => self.list_tenant_once(tenant).await,
            Some(_) | None => Ok(None),
        }
    }

    /// Returns why the tenant is refused, if it is.
    pub(crate) async fn list_tenant_once(&self, tenant: &TenantId) -> Result<Option<StoreError>, SendError> {
        if self.known.is_listed(tenant) {
            return Ok(None);
        }
        let (limits, _) = self.known.system_limits();
        let most = limits.tenants_max.unwrap_or(TENANTS_MAX_DEFAULT);
        let arguments = Arguments::default().with("tenant", tenant).with("most", most);
        let call = Call { writes: true, ..Call::read("list_tenant", "list a tenant", arguments) };
        let reply = self.send(&call, &[], "", false).await?;
        let refusal = reply::read(&call, &reply, |reply| <()>::deserialize(reply)).err();
        if refusal.is_none() {
            self.known.listed(tenant);
        }
        Ok(refusal)
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
