//! Where turns are computed: small ones in passing, all others on threads that may block, with a limit in time.
//!
//! A turn that panics or takes too long is abandoned: nothing is written, and its run lease is left to expire. That is what
//! remains of a process that died, too, so the store counts all three in one way.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use interlock_model::run::advance::size::is_small_turn;
use interlock_model::run::advance::{Advance, TurnContext, advance};
use interlock_model::run::{InboxEvent, Run};
use interlock_model::workflow::Workflow;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// All that a turn is computed from.
pub(super) struct TurnInput {
    pub(super) workflow: Arc<Workflow>,
    pub(super) run: Run,
    pub(super) inbox: Vec<InboxEvent>,
    pub(super) context: TurnContext,
}

/// Why a turn was not computed to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Abandoned {
    #[error("the turn panicked: {0}")]
    Panicked(String),
    #[error("the turn took longer than {0:?}")]
    OutOfTime(Duration),
    #[error("illegal transition: {0}")]
    Illegal(#[from] interlock_model::run::advance::Illegal),
}

/// Computes turns, and counts those that ran out of time and hold their thread still: nothing can stop them.
#[derive(Debug, Default)]
pub(super) struct Computer {
    hanging: Arc<AtomicUsize>,
}

impl Computer {
    /// Threads that are lost to a turn.
    pub(super) fn hanging(&self) -> usize {
        self.hanging.load(Ordering::Relaxed)
    }

    /// Computes the turn. `time_max`: none computes it right here, whatever it is. `is_suspect`: an earlier turn of the run
    /// was abandoned, so not even a small one is computed in passing.
    pub(super) async fn compute(
        &self,
        input: TurnInput,
        time_max: Option<Duration>,
        is_suspect: bool,
    ) -> Result<Advance, Abandoned> {
        let TurnInput { workflow, run, inbox, .. } = &input;
        match time_max.filter(|_| is_suspect || !is_small_turn(workflow, run, inbox)) {
            None => computed(input),
            Some(time_max) => self.compute_aside(input, time_max).await,
        }
    }

    async fn compute_aside(&self, input: TurnInput, time_max: Duration) -> Result<Advance, Abandoned> {
        let mut computing = spawn_blocking(move || computed(input));
        match timeout(time_max, &mut computing).await {
            Ok(Ok(advanced)) => advanced,
            Ok(Err(stopped)) => Err(Abandoned::Panicked(stopped.to_string())),
            Err(_) => {
                let hanging = self.hanging.clone();
                hanging.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let _ = computing.await;
                    hanging.fetch_sub(1, Ordering::Relaxed);
                });
                Err(Abandoned::OutOfTime(time_max))
            }
        }
    }
}

fn computed(input: TurnInput) -> Result<Advance, Abandoned> {
    let TurnInput { workflow, run, inbox, context } = input;
    let compute = || {
        #[cfg(feature = "planted-abort")]
        planted::act(&run);
        advance(&workflow, run, &inbox, &context)
    };
    // What a panic leaves half done is dropped with it.
    let advanced = catch_unwind(AssertUnwindSafe(compute));
    Ok(advanced.map_err(|panic| Abandoned::Panicked(message(&*panic)))??)
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}

/// Runs that do not survive their turns, for tests. The first turn is part of the admission and not computed here.
#[cfg(feature = "planted-abort")]
mod planted {
    use interlock_model::run::Run;
    use serde_json::json;

    pub(super) fn act(run: &Run) {
        let is_planted = |what: &str| run.start.input.get("planted") == Some(&json!(what));
        if is_planted("abort") {
            std::process::abort();
        }
        assert!(!is_planted("panic"), "planted");
        while is_planted("hang") {
            std::thread::park();
        }
    }
}
