//! Processes on one store, on a clock that advances only when all tasks wait.

use interlock_backend::verbs::ReadLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use interlock_backend::clock::RuntimeClock;
use interlock_backend::faulty::{Faults, FaultyStore};
use interlock_backend::locks::Acquired;
use interlock_backend::memory::{self, MemoryStore};
use interlock_backend::{Bus, InProcessBus, Store, Wake};
use interlock_control::identity::Identity;
use interlock_control::lease::{self, Loss, Term};
use interlock_control::locks::UserLockRequest;
use interlock_control::service::Foundation;
use interlock_control::{Control, Settings};
use interlock_model::lock::{Grant, LockMode, LockName};
use interlock_model::time::millis;
use interlock_model::{Clock, LockToken, Timestamp};
use tokio::sync::broadcast;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::line::{Wire, over};

pub(crate) struct Scene {
    pub(crate) store: Store,
    pub(crate) tables: Arc<MemoryStore>,
    pub(crate) bus: Arc<QuietBus>,
    pub(crate) settings: Settings,
    clock: RuntimeClock,
    store_clock: Arc<JumpingClock>,
}

/// The clock of the store, which may jump ahead of those of the processes.
#[derive(Debug)]
struct JumpingClock {
    clock: RuntimeClock,
    ahead_ms: AtomicU64,
}

impl Clock for JumpingClock {
    fn now(&self) -> Timestamp {
        self.clock.now() + Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst))
    }
}

pub(crate) struct Process {
    pub(crate) control: Arc<Control>,
    pub(crate) wire: Arc<Wire>,
    pub(crate) faulty: Arc<FaultyStore>,
    listening: AbortHandle,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::on(QuietBus { bus: InProcessBus::default(), loses_turns: false })
    }

    /// Every wake-up of a lock's next waiter is lost.
    pub(crate) fn where_turns_are_lost() -> Self {
        Self::on(QuietBus { bus: InProcessBus::default(), loses_turns: true })
    }

    fn on(bus: QuietBus) -> Self {
        let clock = RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_800_000));
        let store_clock = Arc::new(JumpingClock { clock, ahead_ms: AtomicU64::new(0) });
        let tables = Arc::new(memory::store(store_clock.clone()));
        Self {
            store: Store::new(tables.clone()),
            tables,
            bus: Arc::new(bus),
            settings: Settings::default(),
            clock,
            store_clock,
        }
    }

    /// Every lease that is shorter ends at once, and its holder does not notice.
    pub(crate) fn clock_of_the_store_jumps(&self, ahead: Duration) {
        self.store_clock.ahead_ms.fetch_add(millis(ahead), Ordering::SeqCst);
    }

    /// A process with a line of its own to the store.
    pub(crate) fn process(&self, seed: u64) -> Process {
        let wire = Arc::new(Wire::default());
        let line = over(wire.clone(), self.tables.clone());
        let faulty = Arc::new(FaultyStore::new(line, seed, Faults::NONE));
        let foundation = Foundation {
            store: Store::new(faulty.clone()),
            bus: self.bus.clone(),
            clock: Arc::new(self.clock),
            identity: Identity::from_seed(seed),
            instance: format!("i-{seed}").parse().unwrap(),
            mailbox: None,
            probes: Vec::new(),
        };
        let control = Control::new(foundation, self.settings.clone());
        let listen = control.process.wakeups().clone().listen(self.bus.clone(), CancellationToken::new());
        let listening = tokio::spawn(listen).abort_handle();
        Process { control, wire, faulty, listening }
    }

    pub(crate) async fn holder(&self, name: &LockName) -> Option<Grant> {
        self.store
            .call(ReadLock { lock: name.clone() })
            .await
            .unwrap()
            .and_then(|lock| lock.view.holders.first().cloned())
    }
}

impl Process {
    /// Asks, and waits for its turn if need be.
    pub(crate) async fn acquire(&self, ask: UserLockRequest) -> Grant {
        let acquired = self.control.locks.acquire(ask, &CancellationToken::new()).await.unwrap();
        let Acquired::Granted(grant) = acquired else { panic!("not granted: {acquired:?}") };
        grant
    }

    /// Guards work under a lock that was granted under `token`.
    pub(crate) fn item_lock(&self, lock: LockName, token: LockToken, term: Term) -> ItemLock {
        ItemLock { control: self.control.clone(), lock, token, term }
    }
}

/// A lock on one item of work: renewed while the work runs, released after it.
pub(crate) struct ItemLock {
    control: Arc<Control>,
    lock: LockName,
    token: LockToken,
    term: Term,
}

impl ItemLock {
    pub(crate) async fn guard<T>(self, work: impl Future<Output = T>) -> Result<T, Loss> {
        let renew = || async {
            let renewed = self.control.locks.renew(&self.lock, &self.token, self.term.ttl).await;
            lease::renewal(renewed.map(|_| self.term.ttl))
        };
        let done = lease::guard(&self.control.process, self.term, renew, work).await?;
        // No answer in the time of a whole lease is as good as one: it has expired by then.
        let release = self.control.locks.release(&self.lock, &self.token);
        let _ = tokio::time::timeout(self.term.ttl, release).await;
        Ok(done)
    }
}

pub(crate) fn lock(resource: &str) -> LockName {
    LockName::Of("acme".parse().unwrap(), resource.parse().unwrap())
}

/// A request that waits for as long as it takes.
pub(crate) fn ask(resource: &str, owner: &str, ttl: Duration) -> UserLockRequest {
    UserLockRequest {
        lock: lock(resource),
        owner: owner.parse().unwrap(),
        mode: LockMode::Exclusive,
        ttl,
        wait: Duration::from_hours(24),
        request: None,
        held: None,
    }
}

pub(crate) fn term(asked_at: Instant, ttl: Duration) -> Term {
    Term { asked_at, ttl, failures_max: 3 }
}

/// The bus of all processes, which may lose every wake-up of a turn.
pub(crate) struct QuietBus {
    bus: InProcessBus,
    loses_turns: bool,
}

impl Bus for QuietBus {
    fn wake(&self, wake: Wake) {
        if !(self.loses_turns && matches!(wake, Wake::LockTurn { .. })) {
            self.bus.wake(wake);
        }
    }

    fn subscribe(&self) -> broadcast::Receiver<Wake> {
        self.bus.subscribe()
    }

    fn is_connected(&self) -> bool {
        true
    }
}
