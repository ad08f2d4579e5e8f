//! Keeping a lease: renewed in time, and not trusted a moment longer than is safe.
//!
//! The store counts a lease from when it heard of us, which is later than when we asked; counting from the asking, on a
//! clock that nobody sets, and stopping a little earlier still, the holder is gone before another is let in.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

/// A lease as its holder may count it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    /// When it was asked for.
    pub(crate) asked_at: Instant,
    pub(crate) term: Duration,
}

impl Lease {
    /// What is left for dropping the work.
    pub(crate) fn margin(term: Duration) -> Duration {
        term / 10
    }

    pub(crate) fn trusted_until(self) -> Instant {
        self.asked_at + self.term - Self::margin(self.term)
    }
}

/// How a holder tries again when a renewal fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// The parts of the lease of which one is the pause.
    pub(crate) parts: u32,
    /// So many failures in a row are a loss. None: only the deadline is.
    pub(crate) failures_max: Option<u32>,
}

/// What came of a renewal.
pub(crate) enum Renewal<L> {
    Renewed {
        term: Duration,
    },
    Failed,
    /// It is ours no more.
    Over(L),
}

/// Why a lease is no longer to be trusted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End<L> {
    Over(L),
    RenewalsFailed,
    RanOut,
}

/// Renews until the lease is lost. Meant to race with the work; it never says that all is well. Dropped, it renews no
/// more.
pub(crate) async fn keep<L, F>(mut lease: Lease, pace: Pace, mut renew: impl FnMut() -> F) -> End<L>
where
    F: Future<Output = Renewal<L>>,
{
    let mut failures = 0;
    let mut next = lease.asked_at + spread(lease.term / 3);
    loop {
        let until = lease.trusted_until();
        sleep_until(next.min(until)).await;
        let asked_at = Instant::now();
        if asked_at >= until {
            return End::RanOut;
        }
        let patience = (asked_at + lease.term / 3).min(until);
        match timeout_at(patience, renew()).await {
            Ok(Renewal::Renewed { term }) => {
                (lease, failures) = (Lease { asked_at, term }, 0);
                next = asked_at + spread(term / 3);
            }
            Ok(Renewal::Over(why)) => return End::Over(why),
            Ok(Renewal::Failed) | Err(_) => {
                failures += 1;
                if pace.failures_max.is_some_and(|most| failures >= most) {
                    return End::RenewalsFailed;
                }
                next = Instant::now() + spread(lease.term / pace.parts);
            }
        }
    }
}

/// A little earlier, so that holders who came together do not renew together for ever.
fn spread(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.9..=1.0))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;
    use std::future::pending;

    use super::*;

    const TERM: Duration = Duration::from_secs(30);
    const COUNTED: Pace = Pace { parts: 6, failures_max: Some(3) };
    const UNCOUNTED: Pace = Pace { parts: 12, failures_max: None };

    fn lease() -> Lease {
        Lease { asked_at: Instant::now(), term: TERM }
    }

    #[tokio::test(start_paused = true)]
    async fn l3_a_store_that_says_nothing_ends_the_trust_before_the_lease() {
        for pace in [COUNTED, UNCOUNTED] {
            let began = Instant::now();
            let end = keep::<Infallible, _>(lease(), pace, pending).await;
            assert_eq!(end, End::RanOut);
            let took = began.elapsed();
            assert!(took < TERM && took >= TERM.mul_f64(0.85), "{took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn l21_renewals_that_fail_are_counted_and_the_third_in_a_row_comes_well_before_the_end() {
        let (began, tries) = (Instant::now(), Cell::new(0));
        let end = keep::<Infallible, _>(lease(), COUNTED, || {
            tries.set(tries.get() + 1);
            async { Renewal::Failed }
        });
        assert_eq!(end.await, End::RenewalsFailed);
        assert_eq!(tries.get(), 3);
        assert!(began.elapsed() < TERM.mul_f64(0.7), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_that_are_not_in_a_row_do_not_add_up() {
        let calls = Cell::new(0);
        let end = keep(lease(), COUNTED, || {
            calls.set(calls.get() + 1);
            let number = calls.get();
            async move {
                match number {
                    30 => Renewal::Over("enough"),
                    _ if number % 3 == 0 => Renewal::Renewed { term: TERM },
                    _ => Renewal::Failed,
                }
            }
        });
        assert_eq!(end.await, End::Over("enough"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_counts_from_when_it_was_asked_and_not_from_when_it_was_answered() {
        let (asked, late) = (Cell::new(None), Duration::from_secs(8));
        let end = keep::<Infallible, _>(lease(), UNCOUNTED, || {
            let is_first = asked.get().is_none();
            if is_first {
                asked.set(Some(Instant::now()));
            }
            async move {
                if !is_first {
                    pending::<()>().await;
                }
                tokio::time::sleep(late).await;
                Renewal::Renewed { term: TERM }
            }
        });
        assert_eq!(end.await, End::RanOut);
        assert!(asked.get().unwrap().elapsed() < TERM);
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_that_was_stopped_past_its_lease_does_not_ask_whether_it_still_has_it() {
        let stale = Lease { asked_at: Instant::now(), term: TERM };
        tokio::time::advance(TERM).await;
        let end =
            keep::<Infallible, _>(stale, COUNTED, || async { unreachable!("nothing is renewed") }).await;
        assert_eq!(end, End::RanOut);
    }
}
