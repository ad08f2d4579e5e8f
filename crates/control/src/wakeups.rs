//! Passes wake-ups of the bus to the waiters of this process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use interlock_backend::{Bus, Wake};
use interlock_model::lock::LockName;
use interlock_model::{LockRequest, RunId, TenantId, Topic};
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::orphans::Orphans;

/// What a task can wait for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Some run of some tenant is ready for the engine.
    RunReady,
    /// A job of some tenant is held.
    JobsHeld,
    /// A child of a run of some tenant is to be started.
    ChildrenWanted,
    JobsReady(TenantId, Topic),
    RunChanged(RunId),
    KeysChanged,
    TuningChanged,
    LimitsChanged,
    LockTurn(LockName, LockRequest),
}

/// The waiters of this process, in one order, so that a simulation wakes them the same way each time.
///
/// A signal without a waiter costs nothing and leaves nothing behind.
#[derive(Debug, Default)]
pub struct Wakeups {
    waiters: Mutex<BTreeMap<Signal, Weak<Notify>>>,
    /// Tenants with a ready run that the engine has not processed since the wake-up.
    pub(crate) ready: TenantQueue,
    /// Tenants with a held job that this process has not settled since the wake-up.
    held: TenantQueue,
    /// Tenants with a child that this process has not started since the wake-up.
    wanting: TenantQueue,
    pub(crate) orphans: Orphans,
}

/// A queue that holds each tenant once.
#[derive(Debug, Default)]
pub(crate) struct TenantQueue {
    tenants: Mutex<(VecDeque<TenantId>, BTreeSet<TenantId>)>,
}

impl TenantQueue {
    pub(crate) fn next(&self) -> Option<TenantId> {
        let (queue, queued) = &mut *self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let next = queue.pop_front()?;
        queued.remove(&next);
        Some(next)
    }

    /// Appends the tenant, unless it is in the queue.
    pub(crate) fn push(&self, tenant: TenantId) {
        let (queue, queued) = &mut *self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if queued.insert(tenant.clone()) {
            queue.push_back(tenant);
        }
    }
}

/// Signals that are kept before those without a waiter are removed.
const SWEEP_AT: usize = 1_024;

impl Wakeups {
    /// A waiter for `signal`. It receives every wake-up from now on, for as long as it lives.
    pub fn waiter(&self, signal: Signal) -> Arc<Notify> {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notify) = waiters.get(&signal).and_then(Weak::upgrade) {
            return notify;
        }
        if waiters.len() >= SWEEP_AT {
            waiters.retain(|_, waiter| waiter.strong_count() > 0);
        }
        let notify = Arc::new(Notify::new());
        waiters.insert(signal, Arc::downgrade(&notify));
        notify
    }

    /// The tenant whose held jobs are settled next.
    pub(crate) fn next_held(&self) -> Option<TenantId> {
        self.held.next()
    }

    /// Queues the tenant for the settling of its held jobs.
    pub(crate) fn queue_held(&self, tenant: TenantId) {
        self.held.push(tenant);
        self.find(&Signal::JobsHeld).inspect(|waiter| waiter.notify_one());
    }

    /// The tenant whose children are started next.
    pub(crate) fn next_wanting(&self) -> Option<TenantId> {
        self.wanting.next()
    }

    /// Queues the tenant for the start of its children.
    pub(crate) fn queue_wanting(&self, tenant: TenantId) {
        self.wanting.push(tenant);
        self.find(&Signal::ChildrenWanted).inspect(|waiter| waiter.notify_one());
    }

    /// Passes on what the bus says, until `shutdown`.
    pub async fn listen(self: Arc<Self>, bus: Arc<dyn Bus>, shutdown: CancellationToken) {
        let mut receiver = bus.subscribe();
        while let Some(heard) = shutdown.run_until_cancelled(receiver.recv()).await {
            match heard {
                Ok(wake) => self.pass_on(wake),
                // What was missed is unknown, so every waiter polls.
                Err(RecvError::Lagged(_)) => self.wake_all(),
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn pass_on(&self, wake: Wake) {
        match wake {
            Wake::RunReady { tenant } => {
                self.ready.push(tenant);
                self.find(&Signal::RunReady).inspect(|waiter| waiter.notify_one());
            }
            Wake::JobsHeld { tenant } => {
                // A process that settles no jobs queues none.
                if self.find(&Signal::JobsHeld).is_some() {
                    self.queue_held(tenant);
                }
            }
            Wake::ChildrenWanted { tenant } => {
                if self.find(&Signal::ChildrenWanted).is_some() {
                    self.queue_wanting(tenant);
                }
            }
            // One waiter per job: waking all of them for one job would be a small stampede.
            Wake::JobsReady { tenant, topic, jobs } => {
                self.orphans.announced(&tenant, &topic);
                if let Some(waiter) = self.find(&Signal::JobsReady(tenant, topic)) {
                    (0..jobs.min(256)).for_each(|_| waiter.notify_one());
                }
            }
            Wake::RunChanged { run } => {
                self.find(&Signal::RunChanged(run)).inspect(|waiter| waiter.notify_waiters());
            }
            // Their listeners subscribe to the bus itself.
            Wake::JobsRevoked { .. } | Wake::WorkflowChanged { .. } => {}
            Wake::LockTurn { lock, request } => {
                self.find(&Signal::LockTurn(lock, request)).inspect(|waiter| waiter.notify_one());
            }
            // Stored for the next wait: the only follower may be reading an old version now.
            Wake::TuningChanged => {
                self.find(&Signal::TuningChanged).inspect(|waiter| waiter.notify_one());
            }
            Wake::LimitsChanged => {
                self.find(&Signal::LimitsChanged).inspect(|waiter| waiter.notify_one());
            }
            Wake::WorkersChanged => self.wake_each(|signal| matches!(signal, Signal::JobsReady(..))),
            Wake::KeysChanged => {
                self.find(&Signal::KeysChanged).inspect(|waiter| waiter.notify_waiters());
            }
        }
    }

    fn find(&self, signal: &Signal) -> Option<Arc<Notify>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner).get(signal).and_then(Weak::upgrade)
    }

    fn wake_all(&self) {
        self.orphans.wakeups_missed();
        self.wake_each(|_| true);
    }

    /// Wakes every waiter for such a signal, and the next one that begins to wait.
    fn wake_each(&self, matches: impl Fn(&Signal) -> bool) {
        let waiters: Vec<_> = {
            let waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            let matching = waiters.iter().filter(|(signal, _)| matches(signal));
            matching.filter_map(|(_, waiter)| waiter.upgrade()).collect()
        };
        for waiter in waiters {
            waiter.notify_one();
            waiter.notify_waiters();
        }
    }
}
