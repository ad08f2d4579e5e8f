//! Keeping a lease: renewed in time, and not trusted a moment longer than is safe (see [`Trust`]).

use std::time::Duration;

use interlock_model::lock::{Distrust, JITTER_MAX, Trust};
use tokio::time::{Instant, sleep_until, timeout_at};

/// A lease as its holder may count it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    /// When it was asked for.
    pub(crate) asked_at: Instant,
    pub(crate) term: Duration,
    /// So many renewals that certainly failed, in a row, are a loss. None: only the deadline is.
    pub(crate) failures_max: Option<u32>,
}

/// What came of a renewal.
pub(crate) enum Renewal<L> {
    Renewed {
        term: Duration,
    },
    /// It certainly did not happen.
    Failed,
    /// It may have happened, or not.
    Unknown,
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

impl<L> From<Distrust> for End<L> {
    fn from(distrust: Distrust) -> Self {
        match distrust {
            Distrust::Deadline => Self::RanOut,
            Distrust::Failures(_) => Self::RenewalsFailed,
        }
    }
}

/// Renews until the lease is lost. Meant to race with the work; it never says that all is well. Dropped, it renews no
/// more.
pub(crate) async fn keep<L, F>(lease: Lease, mut renew: impl FnMut() -> F) -> End<L>
where
    F: Future<Output = Renewal<L>>,
{
    // All times of the trust are counted from here.
    let start = lease.asked_at;
    let failures_max = lease.failures_max.unwrap_or(u32::MAX);
    let mut trust = Trust::granted(lease.term, failures_max, Duration::ZERO);
    loop {
        sleep_until(start + trust.renews_at(rand::random_range(0..=JITTER_MAX))).await;
        let asked = start.elapsed();
        if let Some(distrust) = trust.ends(asked) {
            return distrust.into();
        }
        match timeout_at(start + trust.patience(asked), renew()).await {
            Ok(Renewal::Renewed { term }) => trust.renewed(asked, term),
            Ok(Renewal::Over(why)) => return End::Over(why),
            Ok(Renewal::Failed) => trust.failed(start.elapsed()),
            Ok(Renewal::Unknown) | Err(_) => trust.unknown(start.elapsed()),
        }
        if let Some(distrust) = trust.ends(start.elapsed()) {
            return distrust.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;
    use std::future::pending;

    use super::*;

    const TERM: Duration = Duration::from_secs(30);
    const COUNTED: Option<u32> = Some(3);

    fn lease(failures_max: Option<u32>) -> Lease {
        Lease { asked_at: Instant::now(), term: TERM, failures_max }
    }

    #[tokio::test(start_paused = true)]
    async fn l3_a_store_that_says_nothing_ends_the_trust_before_the_lease() {
        for failures_max in [COUNTED, None] {
            let began = Instant::now();
            let end = keep::<Infallible, _>(lease(failures_max), pending).await;
            assert_eq!(end, End::RanOut);
            let took = began.elapsed();
            assert!(took < TERM && took >= TERM.mul_f64(0.85), "{took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn l21_renewals_that_fail_are_counted_and_the_third_in_a_row_comes_well_before_the_end() {
        let (began, tries) = (Instant::now(), Cell::new(0));
        let end = keep::<Infallible, _>(lease(COUNTED), || {
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
        let end = keep(lease(COUNTED), || {
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
        let (asked, late) = (Cell::new(None), Duration::from_secs(4));
        let end = keep::<Infallible, _>(lease(None), || {
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
        let stale = lease(COUNTED);
        tokio::time::advance(TERM).await;
        let end = keep::<Infallible, _>(stale, || async { unreachable!("nothing is renewed") }).await;
        assert_eq!(end, End::RanOut);
    }
}
