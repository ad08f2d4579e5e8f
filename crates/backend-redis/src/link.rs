//! From a call to an answer: the way to the scripts, with what one process knows of the store.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use interlock_backend::{Effect, StoreError};
use interlock_model::limit::Limits;
use interlock_model::{Clock, Fence, InstanceId, TenantId};
use rand::RngExt;
use redis::Value;

use crate::connect::{Connection, SendError, SendErrorKind};
use crate::script::{Call, Fields, Header, Missing, Unreadable};

/// The hash tag of what belongs to no tenant. Tenants cannot have this name.
const SYSTEM_TAG: &str = "{:system}";

/// How often a call whose answer was lost is asked again, under the same request id.
const REPEATS_MAX: u32 = 2;

/// Holds in doubt that are remembered; older ones end with their lease.
const DOUBTFUL_HOLDS_MAX: usize = 256;

/// The longest pause before asking again, doubled each time.
const PAUSE_BASE: Duration = Duration::from_millis(25);

/// What a process keeps of the store beside the connection. Nothing in it decides; the scripts do.
pub(crate) struct Link {
    connection: Connection,
    /// A test's clock; none for the store's own, which is the only one in production.
    clock: Option<Arc<dyn Clock>>,
    known: Mutex<Known>,
    fences: Fences,
    polls: AtomicU64,
}

/// What was last heard of the system.
#[derive(Debug, Default)]
struct Known {
    limits: Limits,
    limits_revision: u64,
    /// Instances that were not heard of for too long: their locks hold no more.
    gone: Vec<InstanceId>,
    /// Tenants that are certainly in the list of all.
    listed: BTreeSet<TenantId>,
    /// Holds that this process may have without knowing: by the token of a take, or by the fence of a commit, whose
    /// answer was lost for good.
    doubtful_holds: VecDeque<String>,
}

/// Fences never go back, also when the store comes back as another one that has forgotten the last of them.
#[derive(Debug, Default)]
struct Fences {
    seen: AtomicU64,
    floor: AtomicU64,
    store_changes: AtomicU64,
}

impl Link {
    pub(crate) fn new(connection: Connection, clock: Option<Arc<dyn Clock>>) -> Self {
        let fences =
            Fences { store_changes: AtomicU64::new(connection.store_changes()), ..Fences::default() };
        Self { connection, clock, known: Mutex::default(), fences, polls: AtomicU64::new(0) }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Commands that were sent to get something done: looks at whether there is something to do are not among them.
    pub(crate) fn commands_sent(&self) -> u64 {
        self.connection.commands_sent().saturating_sub(self.polls.load(Ordering::Relaxed))
    }

    pub(crate) fn system_limits(&self) -> (Limits, u64) {
        let known = self.known();
        (known.limits, known.limits_revision)
    }

    pub(crate) fn learn_limits(&self, limits: Limits, revision: u64) {
        let mut known = self.known();
        // An answer that was overtaken must not undo a newer one.
        if revision >= known.limits_revision {
            (known.limits, known.limits_revision) = (limits, revision);
        }
    }

    /// What this process has written itself is in force for it, whatever it knew before.
    pub(crate) fn wrote_limits(&self, limits: Limits, revision: u64) {
        let mut known = self.known();
        (known.limits, known.limits_revision) = (limits, revision);
    }

    /// Remembers a hold that nobody in this process will let go of: whoever takes the run next may pass over it.
    pub(crate) fn doubt_hold(&self, mark: String) {
        let mut known = self.known();
        if known.doubtful_holds.len() == DOUBTFUL_HOLDS_MAX {
            known.doubtful_holds.pop_front();
        }
        known.doubtful_holds.push_back(mark);
    }

    pub(crate) fn doubtful_holds(&self) -> Vec<String> {
        self.known().doubtful_holds.iter().cloned().collect()
    }

    pub(crate) fn gone_instances(&self) -> Vec<InstanceId> {
        self.known().gone.clone()
    }

    pub(crate) fn learn_gone(&self, gone: Vec<InstanceId>) {
        self.known().gone = gone;
    }

    /// Remembers a fence that this process was given.
    pub(crate) fn saw_fence(&self, fence: Fence) {
        self.fences.seen.fetch_max(fence.number(), Ordering::SeqCst);
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fence_floor(&self) -> u64 {
        let changes = self.connection.store_changes();
        if self.fences.store_changes.load(Ordering::SeqCst) != changes {
            // The floor first: whoever sees the new number must see it, too.
            self.fences.floor.fetch_max(self.fences.seen.load(Ordering::SeqCst), Ordering::SeqCst);
            self.fences.store_changes.store(changes, Ordering::SeqCst);
            // The new store may have lost the list of tenants and the last limits, too.
            let mut known = self.known();
            known.listed.clear();
            known.limits_revision = 0;
        }
        self.fences.floor.load(Ordering::SeqCst)
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
        let tag =
            call.tenant.as_ref().map_or_else(|| SYSTEM_TAG.to_owned(), |tenant| format!("{{{tenant}}}"));
        let (prefix, locks) = (self.connection.key_prefix(), self.connection.lock_prefix());
        let header = Header {
            key: &format!("{prefix}wf:tenant:{tag}"),
            prefix,
            // On a Cluster a script may only touch keys of its own node.
            lock_prefix: &if self.connection.is_cluster() {
                format!("{locks}wf:run:lock:{tag}:")
            } else {
                format!("{locks}wf:run:lock:")
            },
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
        let Some(tenant) = call.tenant.as_ref().filter(|_| call.writes) else { return Ok(()) };
        self.list_tenant_once(tenant).await
    }

    pub(crate) async fn list_tenant_once(&self, tenant: &TenantId) -> Result<(), SendError> {
        if self.known().listed.contains(tenant) {
            return Ok(());
        }
        let mut command = redis::cmd("ZADD");
        command.arg(self.system_key("sys:tenants")).arg(0).arg(tenant.as_str());
        self.connection.send(&command, true).await?;
        self.known().listed.insert(tenant.clone());
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
            let current = fields.fence().map_err(|error| damaged(name, error))?;
            Err(StoreError::Fenced { held: call.held, current })
        }
        ("conflict", _) => Err(StoreError::Conflict(fields.text().map_err(|error| damaged(name, error))?)),
        (other, _) => Err(damaged(name, Unreadable(format!("{name} answered {other}")))),
    }
}

/// What cannot be read, as the contract tells it.
pub(crate) fn damaged(script: &'static str, error: Unreadable) -> StoreError {
    StoreError::Damaged { table: "redis", key: script.to_owned(), reason: error.0 }
}
