//! The requests of an arm and their responses.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use interlock_api::client::{Error, Result};

/// The response to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    Ok,
    /// 409: another client has the lock.
    Held,
    /// 429.
    AtCapacity,
    /// 503.
    Unavailable,
    Other,
}

impl RequestOutcome {
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

    /// Whether the same request may succeed later.
    pub(super) fn is_retryable(self) -> bool {
        match self {
            Self::Held | Self::AtCapacity | Self::Unavailable => true,
            Self::Ok | Self::Other => false,
        }
    }
}

/// One request. Times count from the first request, or from the common start of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestAttempt {
    /// Of its contender, from 1.
    pub(super) number: u32,
    pub(super) sent: Duration,
    /// How long it took, and its outcome; none if it had no response at the time limit.
    pub(super) response: Option<(Duration, RequestOutcome)>,
}

/// Everything that an arm observed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LoadTrace {
    pub(super) contenders: u32,
    pub(super) attempts: Vec<RequestAttempt>,
    /// When each successful contender was served.
    pub(super) served: Vec<Duration>,
    pub(super) elapsed: Duration,
    /// The time limit ended the load before all contenders had finished.
    pub(super) is_cut: bool,
    /// Requests that only generate load and are not part of the figures.
    pub(super) background: u64,
    /// The attempts are not all arrivals: the server redelivers results itself, or another tenant sends requests.
    pub(super) has_unseen_arrivals: bool,
    /// Commands that the server sent to its store.
    pub(super) commands: Option<u64>,
    /// Results that the server deferred because a run was busy.
    pub(super) redeliveries: Option<u64>,
    pub(super) notes: Vec<String>,
}

impl LoadTrace {
    /// The durations and outcomes of all requests with a response.
    pub(super) fn responses(&self) -> impl Iterator<Item = (Duration, RequestOutcome)> {
        self.attempts.iter().filter_map(|attempt| attempt.response)
    }
}

/// Records a trace for many concurrent contenders.
#[derive(Debug, Default)]
pub(super) struct TraceRecorder {
    start: OnceLock<Instant>,
    trace: Mutex<LoadTrace>,
}

impl TraceRecorder {
    /// Starts the clock if it is not running yet.
    pub(super) fn start(&self) -> Instant {
        *self.start.get_or_init(Instant::now)
    }

    fn now(&self) -> Duration {
        self.start().elapsed()
    }

    fn recorded(&self) -> MutexGuard<'_, LoadTrace> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request and records it.
    pub(super) async fn attempt<T>(
        &self,
        number: u32,
        request: impl Future<Output = Result<T>>,
    ) -> std::result::Result<T, RequestOutcome> {
        let sent = self.now();
        let index = {
            let attempts = &mut self.recorded().attempts;
            attempts.push(RequestAttempt { number, sent, response: None });
            attempts.len() - 1
        };
        let result = request.await;
        let outcome = RequestOutcome::of(&result);
        let took = self.now().saturating_sub(sent);
        self.recorded().attempts[index].response = Some((took, outcome));
        result.map_err(|_| outcome)
    }

    /// Records that a contender was served.
    pub(super) fn served(&self) {
        let now = self.now();
        self.recorded().served.push(now);
    }

    /// The trace up to now.
    pub(super) fn trace(&self, contenders: u32, is_cut: bool) -> LoadTrace {
        LoadTrace { contenders, elapsed: self.now(), is_cut, ..self.recorded().clone() }
    }
}
