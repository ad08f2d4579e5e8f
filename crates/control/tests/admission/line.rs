//! One process's line to a store: slow, failing or dead at a chosen call, and a record of what went over it.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::verbs::{Admit, Answer, Request};
use interlock_backend::{Backend, Effect, StoreError};
use interlock_model::admission::StartOutcome;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// Where a line dies: before the store hears of a call, or after it has done it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    Before(usize),
    After(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The call takes so long to arrive.
    Slow(Duration),
    /// This many calls fail, each with this effect. If it is unknown, the store has done it.
    Fails(u32, Effect),
    /// No answer ever arrives.
    Vanishes,
}

#[derive(Default)]
pub(crate) struct Wire {
    state: Mutex<State>,
    died: Notify,
}

#[derive(Default)]
struct State {
    death: Option<Death>,
    faults: Vec<(&'static str, Fault)>,
    calls: Vec<(&'static str, Instant)>,
    answered: Vec<&'static str>,
    /// Calls whose caller has stopped waiting.
    given_up: Vec<(&'static str, Instant)>,
}

impl Wire {
    pub(crate) fn dies(&self, death: Death) {
        self.state.lock().unwrap().death = Some(death);
    }

    /// Until the line is dead.
    pub(crate) async fn died(&self) {
        self.died.notified().await;
    }

    pub(crate) fn fault(&self, action: &'static str, fault: Fault) {
        self.state.lock().unwrap().faults.push((action, fault));
    }

    /// When this process asked for `action`.
    pub(crate) fn calls(&self, action: &str) -> Vec<Instant> {
        of(&self.state.lock().unwrap().calls, action)
    }

    /// When this process stopped waiting for an answer.
    pub(crate) fn given_up(&self, action: &str) -> Vec<Instant> {
        of(&self.state.lock().unwrap().given_up, action)
    }

    /// Whether the store has answered a call to do `action`.
    pub(crate) fn has_answered(&self, action: &str) -> bool {
        self.state.lock().unwrap().answered.contains(&action)
    }

    /// Every call in order.
    pub(crate) fn all(&self) -> Vec<&'static str> {
        self.state.lock().unwrap().calls.iter().map(|(action, _)| *action).collect()
    }

    async fn pass(&self, death: Death) {
        if self.state.lock().unwrap().death == Some(death) {
            self.died.notify_one();
            pending::<()>().await;
        }
    }

    fn called(&self, action: &'static str) -> usize {
        let mut state = self.state.lock().unwrap();
        state.calls.push((action, Instant::now()));
        state.calls.len()
    }

    fn next_fault(&self, action: &str) -> Option<Fault> {
        let mut state = self.state.lock().unwrap();
        let fault = state.faults.iter_mut().find(|(faulty, _)| *faulty == action)?;
        let now = fault.1;
        match &mut fault.1 {
            Fault::Fails(0, _) => return None,
            Fault::Fails(left, _) => *left -= 1,
            Fault::Slow(_) | Fault::Vanishes => {}
        }
        Some(now)
    }

    async fn carry<R>(
        &self,
        action: &'static str,
        call: impl Future<Output = Result<R, StoreError>>,
    ) -> Result<R, StoreError> {
        let number = self.called(action);
        let patience = Patience { wire: self, action, is_answered: false };
        self.pass(Death::Before(number)).await;
        let answer = match self.next_fault(action) {
            None => call.await,
            Some(Fault::Slow(time)) => {
                sleep(time).await;
                call.await
            }
            Some(Fault::Vanishes) => pending().await,
            Some(Fault::Fails(_, effect)) => {
                if effect == Effect::Unknown {
                    let _ = call.await;
                }
                Err(StoreError::Unavailable { action, effect, reason: "a test".to_owned() })
            }
        };
        self.pass(Death::After(number)).await;
        patience.answered();
        answer
    }
}

fn of(all: &[(&'static str, Instant)], action: &str) -> Vec<Instant> {
    all.iter().filter(|(done, _)| *done == action).map(|(_, at)| *at).collect()
}

/// Notes that a caller has stopped waiting.
struct Patience<'a> {
    wire: &'a Wire,
    action: &'static str,
    is_answered: bool,
}

impl Patience<'_> {
    fn answered(mut self) {
        self.is_answered = true;
        self.wire.state.lock().unwrap().answered.push(self.action);
    }
}

impl Drop for Patience<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.wire.state.lock().unwrap().given_up.push((self.action, Instant::now()));
        }
    }
}

struct Line {
    store: Arc<dyn Backend>,
    wire: Arc<Wire>,
}

/// The store, as a process sees it over `wire`.
pub(crate) fn over(wire: Arc<Wire>, store: Arc<dyn Backend>) -> Arc<dyn Backend> {
    Arc::new(Line { store, wire })
}

#[async_trait]
impl Backend for Line {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        self.wire.carry(request.action(), self.store.ask(request)).await
    }

    fn refusal(&self, _: &Admit) -> Option<StartOutcome> {
        None
    }

    fn commands_sent(&self) -> u64 {
        self.store.commands_sent()
    }
}
