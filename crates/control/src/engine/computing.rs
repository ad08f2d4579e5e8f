//! Where turns are computed: small ones in passing, all others on threads that may block, with a limit in time.
//!
//! Of each tenant one large turn is computed at a time: its memory and its share of the processors stay those of one.
//!
//! A turn that panics or takes too long is abandoned: nothing is written, and its run lease is left to expire. That is what
//! remains of a process that died, too, so the store counts all three in one way.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use interlock_model::TenantId;
use interlock_model::run::advance::size::is_small_turn;
use interlock_model::run::advance::{Advance, TurnContext, advance};
use interlock_model::run::{InboxEvent, Run};
use interlock_model::workflow::Workflow;
use tokio::sync::Semaphore;
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
    /// The permit for the large turn of each tenant, for as long as one is computed or waits.
    large: Mutex<BTreeMap<TenantId, Weak<Semaphore>>>,
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
            // Boxed: the input would lie in the future of every turn a second time.
            Some(time_max) => Box::pin(self.compute_aside(input, time_max)).await,
        }
    }

    fn permits_of(&self, tenant: &TenantId) -> Arc<Semaphore> {
        let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(permits) = large.get(tenant).and_then(Weak::upgrade) {
            return permits;
        }
        large.retain(|_, permits| permits.strong_count() > 0);
        let permits = Arc::new(Semaphore::new(1));
        large.insert(tenant.clone(), Arc::downgrade(&permits));
        permits
    }

    async fn compute_aside(&self, input: TurnInput, time_max: Duration) -> Result<Advance, Abandoned> {
        let permits = self.permits_of(&input.run.start.tenant);
        let _permit = permits.acquire().await.expect("it is never closed");
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
        planted::act(&run, &inbox);
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
    use interlock_model::run::{InboxEvent, Run};
    use serde_json::json;

    /// Only to cancel a run looks at nothing of it.
    pub(super) fn act(run: &Run, inbox: &[InboxEvent]) {
        if matches!(inbox, [InboxEvent::Cancel { .. }]) {
            return;
        }
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

#[cfg(test)]
#[cfg(feature = "planted-abort")]
mod tests {
    use std::collections::BTreeMap;

    use interlock_model::limit::place::StartPriority;
    use interlock_model::run::{Head, Start, StartedFrom};
    use interlock_model::{RunId, Timestamp, WorkflowId};
    use serde_json::json;
    use tokio::runtime::Builder;

    use super::*;

    const TIME_MAX: Option<Duration> = Some(Duration::from_millis(50));

    /// A turn of a run that holds this many bytes.
    fn turn(planted: &str, held_bytes: u64) -> TurnInput {
        let document = json!({"name": "test", "steps": {"a": {"type": "worker", "topic": "t"}}});
        let id: WorkflowId = "test".parse().unwrap();
        let document = serde_json::from_value(document).unwrap();
        let workflow = Arc::new(Workflow::compile(id.clone(), 1, &document).unwrap());
        let now = Timestamp::from_millis(1_000);
        let start = Start {
            run: RunId::new(now, [7; 10]),
            tenant: "acme".parse().unwrap(),
            workflow: id,
            workflow_version: 1,
            input: json!({"planted": planted}),
            idempotency_key: None,
            origin: StartedFrom::Request,
            parent: None,
            labels: BTreeMap::new(),
            priority: StartPriority::default(),
            trace: None,
            created_at: now,
        };
        let head = Head { held_bytes, ..Head::admitted(now) };
        let run = Run { start, head, steps: BTreeMap::new() };
        TurnInput { workflow, run, inbox: Vec::new(), context: TurnContext::at(now) }
    }

    #[tokio::test]
    async fn a_turn_that_panics_is_abandoned_wherever_it_is_computed() {
        let computer = Computer::default();
        for (held_bytes, time_max, is_suspect) in
            [(0, None, false), (0, TIME_MAX, false), (1 << 20, TIME_MAX, false), (0, TIME_MAX, true)]
        {
            let ended = computer.compute(turn("panic", held_bytes), time_max, is_suspect).await;
            let Err(Abandoned::Panicked(message)) = ended else { panic!("not abandoned: {ended:?}") };
            assert!(message.contains("planted"), "{message}");
        }
        assert_eq!(computer.hanging(), 0);
    }

    #[test]
    fn a_turn_that_hangs_is_abandoned_beside_the_only_async_thread_and_counted() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let computer = Computer::default();
        for (count, (held_bytes, is_suspect)) in (1..).zip([(1 << 20, false), (0, true)]) {
            let ended = runtime.block_on(computer.compute(turn("hang", held_bytes), TIME_MAX, is_suspect));
            assert!(matches!(ended, Err(Abandoned::OutOfTime(_))), "{ended:?}");
            assert_eq!(computer.hanging(), count);
        }
        runtime.shutdown_background();
    }

    /// One thread computes in the order in which turns are begun, so one that was begun first has ended first.
    #[test]
    fn a_tenant_computes_one_large_turn_at_a_time_and_waits_for_no_other_tenants() {
        let runtime = Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap();
        let computer = Computer::default();
        runtime.block_on(async {
            let computing = computer.permits_of(&"acme".parse().unwrap());
            let permit = computing.acquire().await.unwrap();
            let mut second =
                Box::pin(computer.compute(turn("nothing", 1 << 20), Some(Duration::from_mins(1)), false));
            assert!(futures_util::poll!(&mut second).is_pending());
            let mut other = turn("nothing", 1 << 20);
            other.run.start.tenant = "globex".parse().unwrap();
            computer.compute(other, Some(Duration::from_mins(1)), false).await.unwrap();
            assert!(futures_util::poll!(&mut second).is_pending(), "it waits for the tenant's other turn");
            drop(permit);
            second.await.unwrap();
        });
    }

    #[tokio::test]
    async fn a_turn_is_the_same_wherever_it_is_computed() {
        let computer = Computer::default();
        let aside = computer.compute(turn("nothing", 0), TIME_MAX, true).await.unwrap();
        let inline = computer.compute(turn("nothing", 0), None, false).await.unwrap();
        assert_eq!((aside.run, aside.effects), (inline.run, inline.effects));
    }
}
