//! What was sent and what came back, one entry a request.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use interlock_api::client::{Error, Result};

/// What a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Ok,
    /// 409: somebody else has it.
    Held,
    /// 429.
    AtCapacity,
    /// 503.
    Unavailable,
    Other,
}

impl Answer {
    fn of<T>(result: &Result<T>) -> Self {
        match result {
            Ok(_) => Self::Ok,
            Err(Error::Problem(problem)) => match problem.status {
                409 => Self::Held,
                429 => Self::AtCapacity,
                503 => Self::Unavailable,
                _ => Self::Other,
            },
            Err(Error::Unreachable { .. } | Error::Malformed { .. } | Error::Settings(_)) => Self::Other,
        }
    }

    /// Whether the same may be answered otherwise a little later.
    #[must_use]
    pub fn is_passing(self) -> bool {
        match self {
            Self::Held | Self::AtCapacity | Self::Unavailable => true,
            Self::Ok | Self::Other => false,
        }
    }
}

/// One request. Times count from the first request: where all are let go together, from that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    pub contender: u32,
    /// From 1.
    pub number: u32,
    pub sent: Duration,
    pub took: Duration,
    pub answer: Answer,
}

/// Everything that an arm saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    pub contenders: u32,
    pub attempts: Vec<Attempt>,
    /// When each contender had what it wanted; some never.
    pub served: Vec<Duration>,
    pub elapsed: Duration,
    /// The time was over before everybody had come to an end.
    pub is_cut: bool,
    /// When those were sent that had no answer yet when the time was over.
    pub unanswered: Vec<Duration>,
    /// Requests that made the load and are not judged.
    pub background: u64,
    /// More arrived at what is contended for than the attempts: the server tried again by itself, or others were there.
    pub has_unseen_arrivals: bool,
    /// What the store was asked meanwhile.
    pub commands: Option<u64>,
    /// Deliveries that the server put off because a run was busy.
    pub redeliveries: Option<u64>,
    /// What is to be known beside the figures.
    pub notes: Vec<String>,
}

/// Writes a trace while it happens, for many at once.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    start: OnceLock<Instant>,
    written: Mutex<Written>,
}

#[derive(Debug, Default)]
struct Written {
    /// When requests were sent that have no answer yet, by contender and number.
    open: BTreeMap<(u32, u32), Duration>,
    attempts: Vec<Attempt>,
    served: Vec<Duration>,
}

impl Recorder {
    /// Times count from now, if they do not yet.
    pub(super) fn begin(&self) -> Instant {
        *self.start.get_or_init(Instant::now)
    }

    pub(super) fn now(&self) -> Duration {
        self.begin().elapsed()
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries a request out and writes it down.
    pub(super) async fn attempt<T>(
        &self,
        contender: u32,
        number: u32,
        request: impl Future<Output = Result<T>>,
    ) -> (Answer, Result<T>) {
        let sent = self.now();
        self.written().open.insert((contender, number), sent);
        let result = request.await;
        let answer = Answer::of(&result);
        let took = self.now().saturating_sub(sent);
        let mut written = self.written();
        written.open.remove(&(contender, number));
        written.attempts.push(Attempt { contender, number, sent, took, answer });
        drop(written);
        (answer, result)
    }

    /// A contender has what it wanted.
    pub(super) fn served(&self) {
        let now = self.now();
        self.written().served.push(now);
    }

    /// What was written until now.
    pub(super) fn trace(&self, contenders: u32, is_cut: bool) -> Trace {
        let written = self.written();
        let (attempts, served) = (written.attempts.clone(), written.served.clone());
        let unanswered = written.open.values().copied().collect();
        drop(written);
        Trace { contenders, attempts, served, elapsed: self.now(), is_cut, unanswered, ..Trace::default() }
    }
}
