//! One start of one process: gateway, engine and reconcilers over one faulty connection to the store.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use interlock_backend::faulty::{Faults, FaultyStore};
use interlock_control::Control;
use interlock_control::service::{Foundation, Roles, run_stages};
use interlock_control::settings::Settings;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::Invariant;
use crate::checker::Shared;

pub(crate) struct Instance {
    pub(crate) control: Arc<Control>,
    store: Arc<FaultyStore>,
    tasks: Mutex<Vec<AbortHandle>>,
    is_dead: AtomicBool,
    checker: Shared,
}

impl Instance {
    /// Starts the stages on `foundation`, whose store is `store`.
    pub(crate) fn start(
        foundation: Foundation,
        store: Arc<FaultyStore>,
        settings: Settings,
        checker: Shared,
    ) -> Arc<Self> {
        let control = Control::new(foundation, settings);
        let roles = Roles { engine: true, scheduler: true };
        let stages = tokio::spawn(run_stages(control.clone(), roles, CancellationToken::new()));
        let tasks = Mutex::new(vec![stages.abort_handle()]);
        Arc::new(Self { control, store, tasks, is_dead: AtomicBool::new(false), checker })
    }

    /// A request to this instance. No answer: it died, and what it had done by then is unknown.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        if self.is_dead.load(Ordering::Relaxed) {
            return None;
        }
        let task = tokio::spawn(work);
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task.abort_handle());
        match task.await {
            Ok(answer) => Some(answer),
            Err(error) => {
                if error.is_panic() {
                    self.checker
                        .with(|it| it.violate(Invariant::NothingBreaks, format!("a request broke: {error}")));
                }
                None
            }
        }
    }

    /// Kills the process: whatever any of its tasks waits for never comes.
    pub(crate) fn kill(&self) {
        self.is_dead.store(true, Ordering::Relaxed);
        // What its tasks would do when they are dropped, a dead process does not.
        self.store.set_faults(Faults { requests_lost: 1_000, ..Faults::NONE });
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }

    /// From now on its calls reach the store.
    pub(crate) fn calm(&self) {
        self.store.set_faults(Faults::NONE);
    }
}
