//! Processes on one store, on a clock that only goes when everybody waits.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::clock::RuntimeClock;
use interlock_backend::{Bus, InProcessBus, Store, memory};
use interlock_control::identity::Identity;
use interlock_control::service::{Foundation, Roles, run_stages};
use interlock_control::{Control, Settings};
use interlock_model::contention::Scope;
use interlock_model::retry::RetryPolicy;
use interlock_model::{RunId, Timestamp};
use tokio_util::sync::{CancellationToken, DropGuard};

/// As long as a change may take until it holds everywhere.
pub(crate) const SOON: Duration = Duration::from_secs(1);

pub(crate) struct Scene {
    pub(crate) store: Store,
    pub(crate) bus: Arc<InProcessBus>,
    clock: RuntimeClock,
}

pub(crate) struct Process {
    pub(crate) control: Arc<Control>,
    _shutdown: DropGuard,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let clock = RuntimeClock::starting_at(Timestamp::from_millis(1_794_700_800_000));
        let store = Store::new(Arc::new(memory::store(Arc::new(clock))));
        Self { store, bus: Arc::new(InProcessBus::default()), clock }
    }

    pub(crate) fn process(&self, name: &str) -> Process {
        self.process_with(name, self.bus.clone(), Settings::default())
    }

    /// One on a bus of its own: no wake-up reaches it or leaves it.
    pub(crate) fn deaf_process(&self, name: &str) -> Process {
        self.process_with(name, Arc::new(InProcessBus::default()), Settings::default())
    }

    pub(crate) fn process_with(&self, name: &str, bus: Arc<dyn Bus>, settings: Settings) -> Process {
        let foundation = Foundation {
            store: self.store.clone(),
            bus,
            clock: Arc::new(self.clock),
            identity: Identity::from_seed(name.len() as u64),
            instance: name.parse().unwrap(),
            mailbox: None,
            probes: Vec::new(),
        };
        let control = Control::new(foundation, settings);
        let shutdown = CancellationToken::new();
        let roles = Roles { engine: false, scheduler: false };
        tokio::spawn(run_stages(control.clone(), roles, shutdown.clone()));
        Process { control, _shutdown: shutdown.drop_guard() }
    }
}

impl Process {
    pub(crate) fn policy(&self, scope: Scope) -> RetryPolicy {
        self.control.contention.in_force().tunings.of(scope).policy
    }
}

pub(crate) fn fixed(delay_ms: u64) -> RetryPolicy {
    RetryPolicy::Fixed { delay_ms }
}

pub(crate) fn run(number: u64) -> RunId {
    RunId::new(Timestamp::from_millis(number), [7; 10])
}
