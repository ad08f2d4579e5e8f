//! From the bus to whoever waits in this process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use interlock_backend::{Bus, Wake};
use interlock_model::lock::LockName;
use interlock_model::{LockRequest, RunId, TenantId, Topic};
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::orphans::Orphans;

/// What somebody can wait for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Some run of some tenant is ready for the engine.
    RunReady,
    /// A job of some tenant is held.
    JobsHeld,
    JobsReady(TenantId, Topic),
    RunChanged(RunId),
    KeysChanged,
    TuningChanged,
    LockTurn(LockName, LockRequest),
}

/// The waiters of this process, in one order, so that a simulation wakes them the same way each time.
///
/// A signal that nobody waits for costs nothing and leaves nothing behind.
#[derive(Debug, Default)]
pub struct Wakeups {
    waiters: Mutex<BTreeMap<Signal, Weak<Notify>>>,
    /// Tenants with a ready run that the engine has not looked at since it was told.
    ready: Mutex<TenantLine>,
    /// Tenants with a held job that nobody in this process has looked at since it was told.
    held: Mutex<TenantLine>,
    /// Jobs that were found without a word.
    pub(crate) orphans: Orphans,
}

/// A line in which each tenant stands once.
#[derive(Debug, Default)]
struct TenantLine {
    line: VecDeque<TenantId>,
    standing: BTreeSet<TenantId>,
}

impl TenantLine {
    fn next(&mut self) -> Option<TenantId> {
        let next = self.line.pop_front()?;
        self.standing.remove(&next);
        Some(next)
    }

    fn remember(&mut self, tenant: TenantId) {
        if self.standing.insert(tenant.clone()) {
            self.line.push_back(tenant);
        }
    }
}

/// Signals that may be remembered before the ones nobody waits for are swept out.
const SWEEP_AT: usize = 1_024;

impl Wakeups {
    /// A waiter for `signal`. It hears what is said from now on, for as long as it lives.
    #[must_use]
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

    /// The tenant whose turn it is.
    pub(crate) fn next_ready(&self) -> Option<TenantId> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    /// The tenant whose held jobs are looked at next.
    pub(crate) fn next_held(&self) -> Option<TenantId> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    /// Puts the tenant at the end of the line of those with held jobs, unless it stands in it.
    pub(crate) fn remember_held(&self, tenant: TenantId) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remember(tenant);
        self.find(&Signal::JobsHeld).inspect(|waiter| waiter.notify_one());
    }

    /// Puts the tenant at the end of the line, unless it stands in it.
    pub(crate) fn remember_ready(&self, tenant: TenantId) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).remember(tenant);
    }

    /// Passes on what the bus says, until `shutdown`.
    pub async fn listen(self: Arc<Self>, bus: Arc<dyn Bus>, shutdown: CancellationToken) {
        let mut receiver = bus.subscribe();
        while let Some(heard) = shutdown.run_until_cancelled(receiver.recv()).await {
            match heard {
                Ok(wake) => self.pass_on(wake),
                // What was missed is unknown, so everybody looks.
                Err(RecvError::Lagged(_)) => self.wake_all(),
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn pass_on(&self, wake: Wake) {
        match wake {
            Wake::RunReady { tenant } => {
                self.remember_ready(tenant);
                self.find(&Signal::RunReady).inspect(|waiter| waiter.notify_one());
            }
            Wake::JobsHeld { tenant } => {
                // A process that settles nothing remembers nothing.
                if self.find(&Signal::JobsHeld).is_some() {
                    self.remember_held(tenant);
                }
            }
            // One waiter a job: waking all of them for one job would be a small stampede.
            Wake::JobsReady { tenant, topic, jobs } => {
                self.orphans.said(&tenant, &topic);
                if let Some(waiter) = self.find(&Signal::JobsReady(tenant, topic)) {
                    (0..jobs.min(256)).for_each(|_| waiter.notify_one());
                }
            }
            Wake::RunChanged { run } => {
                self.find(&Signal::RunChanged(run)).inspect(|waiter| waiter.notify_waiters());
            }
            // For whoever listens to the bus itself.
            Wake::JobsRevoked { .. } | Wake::WorkflowChanged { .. } | Wake::LimitsChanged => {}
            Wake::LockTurn { lock, request } => {
                self.find(&Signal::LockTurn(lock, request)).inspect(|waiter| waiter.notify_one());
            }
            // Remembered: there is one who follows, and it may be reading what is old by now.
            Wake::TuningChanged => {
                self.find(&Signal::TuningChanged).inspect(|waiter| waiter.notify_one());
            }
            Wake::WorkersChanged => self.wake_those(|signal| matches!(signal, Signal::JobsReady(..))),
            Wake::KeysChanged => {
                self.find(&Signal::KeysChanged).inspect(|waiter| waiter.notify_waiters());
            }
        }
    }

    fn find(&self, signal: &Signal) -> Option<Arc<Notify>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner).get(signal).and_then(Weak::upgrade)
    }

    fn wake_all(&self) {
        self.orphans.missed_words();
        self.wake_those(|_| true);
    }

    /// Wakes everybody who waits for such a signal, and whoever is about to.
    fn wake_those(&self, is_meant: impl Fn(&Signal) -> bool) {
        let waiters: Vec<_> = {
            let waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            let meant = waiters.iter().filter(|(signal, _)| is_meant(signal));
            meant.filter_map(|(_, waiter)| waiter.upgrade()).collect()
        };
        for waiter in waiters {
            waiter.notify_one();
            waiter.notify_waiters();
        }
    }
}
