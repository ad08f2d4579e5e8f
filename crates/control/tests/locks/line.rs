//! One process's line to a store that several share: it can be cut, slowed down, and says what went over it.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::verbs::{Admit, Answer, Request};
use interlock_backend::{Backend, StoreError};
use interlock_model::admission::StartOutcome;
use tokio::time::{Instant, sleep};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Cut {
    #[default]
    Open,
    /// What is asked never arrives, and nothing is ever answered.
    RequestsVanish,
    /// What is asked is done, and never answered.
    AnswersVanish,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slow {
    request: Duration,
    answer: Duration,
}

#[derive(Default)]
pub(crate) struct Wire {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cut: Cut,
    /// How long requests and their answers are on their way, by what they do; everything else takes no time.
    slow: Vec<(&'static str, Slow)>,
    done: Vec<(&'static str, Instant)>,
    /// How often something set out or came back, and after how many of these the process is dead.
    passages: u64,
    dies_after: Option<u64>,
}

impl Wire {
    pub(crate) fn cut(&self, cut: Cut) {
        self.state.lock().unwrap().cut = cut;
    }

    /// The process dies after this many requests that set out and answers that came back.
    pub(crate) fn die_after(&self, passages: u64) {
        self.state.lock().unwrap().dies_after = Some(passages);
    }

    pub(crate) fn is_dead(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.dies_after.is_some_and(|last| state.passages > last)
    }

    async fn pass(&self) {
        self.state.lock().unwrap().passages += 1;
        if self.is_dead() {
            pending::<()>().await;
        }
    }

    /// From now on requests to do `action` take `request` to arrive.
    pub(crate) fn slow_down(&self, action: &'static str, request: Duration) {
        self.slow_down_both(action, request, Duration::ZERO);
    }

    /// The same, and the answers take `answer` to come back.
    pub(crate) fn slow_down_both(&self, action: &'static str, request: Duration, answer: Duration) {
        self.state.lock().unwrap().slow.push((action, Slow { request, answer }));
    }

    /// When the store did `action` for this process.
    pub(crate) fn done(&self, action: &str) -> Vec<Instant> {
        let state = self.state.lock().unwrap();
        state.done.iter().filter(|(done, _)| *done == action).map(|(_, at)| *at).collect()
    }

    async fn arrive(&self, action: &'static str) {
        self.pass().await;
        sleep_unless_zero(self.slow(action).request).await;
        if self.state.lock().unwrap().cut == Cut::RequestsVanish {
            pending::<()>().await;
        }
    }

    async fn answer(&self, action: &'static str) {
        let is_lost = {
            let mut state = self.state.lock().unwrap();
            state.done.push((action, Instant::now()));
            state.cut == Cut::AnswersVanish
        };
        if is_lost {
            pending::<()>().await;
        }
        sleep_unless_zero(self.slow(action).answer).await;
        self.pass().await;
    }

    fn slow(&self, action: &str) -> Slow {
        let state = self.state.lock().unwrap();
        state.slow.iter().rev().find(|(slow, _)| *slow == action).map(|(_, slow)| *slow).unwrap_or_default()
    }
}

/// A call that takes no time is done within one poll.
async fn sleep_unless_zero(time: Duration) {
    if time > Duration::ZERO {
        sleep(time).await;
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
        let action = request.action();
        self.wire.arrive(action).await;
        let answer = self.store.ask(request).await;
        self.wire.answer(action).await;
        answer
    }

    fn refusal(&self, _: &Admit) -> Option<StartOutcome> {
        None
    }

    fn commands_sent(&self) -> u64 {
        self.store.commands_sent()
    }
}
