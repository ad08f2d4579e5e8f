//! Work under a lease: the lease is renewed beside the work, and the work is dropped before the store can grant another.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use interlock_backend::verbs::RenewLock;
use interlock_backend::{Effect, StoreError};
use interlock_model::LockToken;
use interlock_model::lock::{Distrust, Grant, JITTER_MAX, LockName, Trust};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::journal;
use crate::process::Process;

/// Something that is held for a time, and can be renewed.
pub trait Lease: Send + Sync {
    /// Asks the store once.
    fn renew(&self) -> impl Future<Output = Renewal> + Send;
}

/// What became of a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Renewal {
    /// For this long from when it was asked for.
    Extended(Duration),
    /// The lease is another's, or not wanted any more.
    Refused(String),
    /// It certainly did not happen.
    Failed,
    /// It may have happened, or not.
    Unknown,
}

impl Renewal {
    pub fn of(answer: Result<Duration, StoreError>) -> Self {
        match answer {
            Ok(ttl) => Self::Extended(ttl),
            Err(error @ (StoreError::Fenced { .. } | StoreError::NotFound { .. })) => {
                Self::Refused(error.to_string())
            }
            Err(StoreError::Unavailable { effect: Effect::Unknown, .. }) => Self::Unknown,
            Err(
                StoreError::Unavailable { effect: Effect::NotDone, .. }
                | StoreError::Conflict(_)
                | StoreError::Damaged { .. },
            ) => Self::Failed,
        }
    }
}

/// Why guarded work was dropped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    #[error("the lease is no longer ours: {0}")]
    Refused(String),
    #[error("{0} renewals in a row failed")]
    Failures(u32),
    #[error("no renewal was confirmed in time, so that the lease may have expired")]
    Deadline,
}

impl From<Distrust> for Loss {
    fn from(distrust: Distrust) -> Self {
        match distrust {
            Distrust::Deadline => Self::Deadline,
            Distrust::Failures(failures) => Self::Failures(failures),
        }
    }
}

/// How a lease was granted, for its keeper to count from.
#[derive(Debug, Clone, Copy)]
pub struct Term {
    /// When it was asked for: before the call to the store.
    pub asked_at: Instant,
    pub ttl: Duration,
    /// Renewals that may fail in a row.
    pub failures_max: u32,
}

/// Runs `work`, and renews `lease` beside it. Once the lease cannot be trusted any more, the work is dropped.
///
/// Renewing is part of this future: dropping it ends both.
pub async fn guarded<T>(
    lease: &impl Lease,
    term: Term,
    process: &Process,
    work: impl Future<Output = T>,
) -> Result<T, Loss> {
    let mut work = pin!(work);
    let mut keeper = Keeper::new(lease, term, process);
    poll_fn(|context| {
        // First the clock: after a pause the work must not continue under an expired lease.
        if let Poll::Ready(loss) = keeper.poll_loss(context) {
            return Poll::Ready(Err(loss));
        }
        work.as_mut().poll(context).map(Ok)
    })
    .await
}

/// Asks for more time whenever it is due.
///
/// It counts on the runtime's clock, which stands still while the machine is suspended. What our own stages do under
/// a lease is written under its fence, too, so a turn that sleeps through its lease is refused.
struct Keeper<'a, L> {
    lease: &'a L,
    process: &'a Process,
    trust: Trust,
    /// All times of `trust` are counted from here.
    start: Instant,
    /// Until the next renewal is due, or no answer is waited for any longer.
    alarm: Pin<Box<Sleep>>,
    asking: Option<Asking<'a>>,
}

struct Asking<'a> {
    asked: Duration,
    answer: Pin<Box<dyn Future<Output = Renewal> + Send + 'a>>,
}

impl<'a, L: Lease> Keeper<'a, L> {
    fn new(lease: &'a L, term: Term, process: &'a Process) -> Self {
        let trust = Trust::granted(term.ttl, term.failures_max, Duration::ZERO);
        let start = term.asked_at;
        let due = start + trust.renews_at(jitter(process));
        Self { lease, process, trust, start, alarm: Box::pin(sleep_until(due)), asking: None }
    }

    /// Ready once the lease cannot be trusted any more.
    fn poll_loss(&mut self, context: &mut Context<'_>) -> Poll<Loss> {
        loop {
            if let Some(distrust) = self.trust.ends(self.now()) {
                return Poll::Ready(distrust.into());
            }
            let Some(asking) = &mut self.asking else {
                ready!(self.alarm.as_mut().poll(context));
                self.ask();
                continue;
            };
            let asked = asking.asked;
            let renewal = match asking.answer.as_mut().poll(context) {
                Poll::Ready(renewal) => renewal,
                Poll::Pending => {
                    ready!(self.alarm.as_mut().poll(context));
                    Renewal::Unknown
                }
            };
            self.asking = None;
            if let Some(loss) = self.take(asked, renewal) {
                return Poll::Ready(loss);
            }
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn ask(&mut self) {
        let asked = self.now();
        if self.trust.ends(asked).is_some() {
            return;
        }
        self.asking = Some(Asking { asked, answer: Box::pin(self.lease.renew()) });
        self.alarm.as_mut().reset(self.start + self.trust.patience(asked));
    }

    fn take(&mut self, asked: Duration, renewal: Renewal) -> Option<Loss> {
        let now = self.now();
        match renewal {
            Renewal::Extended(ttl) => self.trust.renewed(asked, ttl),
            Renewal::Refused(why) => return Some(Loss::Refused(why)),
            Renewal::Failed => self.trust.failed(now),
            Renewal::Unknown => self.trust.unknown(now),
        }
        self.alarm.as_mut().reset(self.start + self.trust.renews_at(jitter(self.process)));
        None
    }
}

fn jitter(process: &Process) -> u32 {
    u32::try_from(process.identity.between(0, JITTER_MAX.into())).unwrap_or(0)
}

pub(crate) async fn renew_lock(
    process: &Process,
    lock: &LockName,
    token: &LockToken,
    ttl: Duration,
) -> Result<Grant, StoreError> {
    let renewed = process.store.call(RenewLock { lock: lock.clone(), token: token.clone(), ttl }).await;
    let renewed = renewed.map(|turn| process.pass_on_turn(lock, turn));
    renewed.inspect_err(|error| journal::lock_refused(lock, error))
}
