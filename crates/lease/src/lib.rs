//! Work under a lease: the lease is renewed beside the work, and the work is dropped before the store can grant it to
//! another (see [`Trust`]).
//!
//! Time is counted on the runtime's clock, which stands still while the machine is suspended. Only the fence of the lease
//! protects against a holder that sleeps through its end.

use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use interlock_model::lock::{Distrust, Trust};
use tokio::time::{Instant, sleep_until, timeout_at};

/// How a lease was granted.
#[derive(Debug, Clone, Copy)]
pub struct Term {
    /// When it was requested; it counts from then.
    pub asked_at: Instant,
    pub ttl: Duration,
    /// The lease counts as lost after this many failed renewals in a row.
    pub failures_max: u32,
}

/// The outcome of a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Renewal<L> {
    /// For this long from when it was requested.
    Extended(Duration),
    /// The lease has ended, or is no longer wanted.
    Refused(L),
    /// It did not happen, or may not have.
    Failed,
}

/// Why work was dropped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Loss<L> {
    #[error("the lease is no longer ours: {0}")]
    Refused(L),
    #[error("{0} renewals in a row were not confirmed")]
    Failures(u32),
    #[error("no renewal was confirmed in time, so that the lease may have expired")]
    Deadline,
}

impl<L> From<Distrust> for Loss<L> {
    fn from(distrust: Distrust) -> Self {
        match distrust {
            Distrust::Deadline => Self::Deadline,
            Distrust::Failures(failures) => Self::Failures(failures),
        }
    }
}

/// Runs `work` and renews its lease beside it. Once the lease cannot be trusted, the work is dropped.
///
/// `jitter` spreads the renewals: a random number up to [`JITTER_MAX`](interlock_model::lock::JITTER_MAX). Renewing is
/// part of this future: dropping it ends both.
pub async fn guard<T, L, R>(
    term: Term,
    mut jitter: impl FnMut() -> u32,
    mut renew: impl FnMut() -> R,
    work: impl Future<Output = T>,
) -> Result<T, Loss<L>>
where
    R: Future<Output = Renewal<L>>,
{
    // All times of `trust` count from here.
    let start = term.asked_at;
    let mut trust = Trust::granted(term.ttl, term.failures_max, Duration::ZERO);
    let mut work = pin!(work);
    loop {
        let due = sleep_until(start + trust.renews_at(jitter()));
        if let ControlFlow::Break(ended) = work_until(due, work.as_mut(), (&trust, start)).await {
            return ended;
        }
        let asked = start.elapsed();
        let renewal = timeout_at(start + trust.patience(asked), renew());
        match work_until(renewal, work.as_mut(), (&trust, start)).await {
            ControlFlow::Break(ended) => return ended,
            ControlFlow::Continue(Ok(Renewal::Extended(ttl))) => trust.renewed(asked, ttl),
            ControlFlow::Continue(Ok(Renewal::Refused(why))) => return Err(Loss::Refused(why)),
            ControlFlow::Continue(Ok(Renewal::Failed) | Err(_)) => trust.failed(asked, start.elapsed()),
        }
    }
}

/// Works until `event`, or until the work or the trust ends.
async fn work_until<T, L, U>(
    event: impl Future<Output = U>,
    mut work: Pin<&mut impl Future<Output = T>>,
    (trust, start): (&Trust, Instant),
) -> ControlFlow<Result<T, Loss<L>>, U> {
    let mut event = pin!(event);
    poll_fn(|context| {
        // First the clock: after a pause the work must not continue under an expired lease.
        if let Some(distrust) = trust.ends(start.elapsed()) {
            return Poll::Ready(ControlFlow::Break(Err(distrust.into())));
        }
        if let Poll::Ready(happened) = event.as_mut().poll(context) {
            return Poll::Ready(ControlFlow::Continue(happened));
        }
        work.as_mut().poll(context).map(|done| ControlFlow::Break(Ok(done)))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use interlock_model::lock::JITTER_MAX;

    use super::*;

    const TTL: Duration = Duration::from_secs(30);
    const FAILURES_MAX: u32 = 3;

    fn term(failures_max: u32) -> Term {
        Term { asked_at: Instant::now(), ttl: TTL, failures_max }
    }

    /// Why work that never ends by itself was dropped.
    async fn keep<R>(term: Term, renew: impl FnMut() -> R) -> Loss<&'static str>
    where
        R: Future<Output = Renewal<&'static str>>,
    {
        guard(term, || JITTER_MAX / 2, renew, pending::<()>()).await.unwrap_err()
    }

    #[tokio::test(start_paused = true)]
    async fn l3_a_silent_store_ends_the_trust_before_the_lease() {
        for failures_max in [FAILURES_MAX, u32::MAX] {
            let began = Instant::now();
            assert_eq!(keep(term(failures_max), pending).await, Loss::Deadline);
            let took = began.elapsed();
            assert!(took < TTL && took >= TTL.mul_f64(0.85), "{took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn l21_the_third_failed_renewal_in_a_row_ends_the_trust_well_before_the_lease() {
        let (began, tries) = (Instant::now(), Cell::new(0));
        let loss = keep(term(FAILURES_MAX), || {
            tries.set(tries.get() + 1);
            async { Renewal::Failed }
        });
        assert_eq!(loss.await, Loss::Failures(3));
        assert_eq!(tries.get(), 3);
        assert!(began.elapsed() < TTL.mul_f64(0.7), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_that_are_not_in_a_row_do_not_add_up() {
        let calls = Cell::new(0);
        let loss = keep(term(FAILURES_MAX), || {
            calls.set(calls.get() + 1);
            let number = calls.get();
            async move {
                match number {
                    30 => Renewal::Refused("enough"),
                    _ if number % 3 == 0 => Renewal::Extended(TTL),
                    _ => Renewal::Failed,
                }
            }
        });
        assert_eq!(loss.await, Loss::Refused("enough"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_counts_from_its_request_and_not_from_its_answer() {
        let (asked, late) = (Cell::new(None), Duration::from_secs(4));
        let loss = keep(term(u32::MAX), || {
            let is_first = asked.get().is_none();
            if is_first {
                asked.set(Some(Instant::now()));
            }
            async move {
                if !is_first {
                    pending::<()>().await;
                }
                tokio::time::sleep(late).await;
                Renewal::Extended(TTL)
            }
        });
        assert_eq!(loss.await, Loss::Deadline);
        assert!(asked.get().unwrap().elapsed() < TTL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_that_was_paused_past_its_lease_does_not_renew_it() {
        let stale = term(FAILURES_MAX);
        tokio::time::advance(TTL).await;
        assert_eq!(keep(stale, || async { unreachable!("nothing is renewed") }).await, Loss::Deadline);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_ends_in_time_is_answered() {
        let renew = || async { Renewal::<&str>::Extended(TTL) };
        let work = async {
            tokio::time::sleep(TTL * 3).await;
            7
        };
        assert_eq!(guard(term(FAILURES_MAX), || 0, renew, work).await, Ok(7));
    }
}
