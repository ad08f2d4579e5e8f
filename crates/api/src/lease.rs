//! Keeping a lease: renewed in time, and never trusted longer than is safe (see [`Trust`]).

use std::time::Duration;

use interlock_model::lock::{Distrust, JITTER_MAX, Trust};
use tokio::time::{Instant, sleep_until, timeout_at};

/// A lease, as its holder sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    /// When it was requested; it counts from then.
    pub(crate) asked_at: Instant,
    pub(crate) term: Duration,
    /// The lease is lost after this many failed renewals in a row. None: only at its end.
    pub(crate) failures_max: Option<u32>,
}

/// The outcome of a renewal.
pub(crate) enum Renewal<L> {
    Renewed {
        term: Duration,
    },
    /// Known not to be renewed.
    Failed,
    /// It may be renewed, or not.
    Unknown,
    /// The lease is lost.
    Lost(L),
}

/// Why a lease is no longer trusted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LeaseEnd<L> {
    Lost(L),
    RenewalsFailed,
    Expired,
}

impl<L> From<Distrust> for LeaseEnd<L> {
    fn from(distrust: Distrust) -> Self {
        match distrust {
            Distrust::Deadline => Self::Expired,
            Distrust::Failures(_) => Self::RenewalsFailed,
        }
    }
}

/// Renews until the lease is lost. Race it with the work: it returns only when the work must stop.
pub(crate) async fn keep<L, F>(lease: Lease, mut renew: impl FnMut() -> F) -> LeaseEnd<L>
where
    F: Future<Output = Renewal<L>>,
{
    // All times of `trust` count from here.
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
            Ok(Renewal::Lost(why)) => return LeaseEnd::Lost(why),
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
    async fn l3_a_silent_store_ends_the_trust_before_the_lease() {
        for failures_max in [COUNTED, None] {
            let began = Instant::now();
            let end = keep::<Infallible, _>(lease(failures_max), pending).await;
            assert_eq!(end, LeaseEnd::Expired);
            let took = began.elapsed();
            assert!(took < TERM && took >= TERM.mul_f64(0.85), "{took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn l21_the_third_failed_renewal_in_a_row_ends_the_trust_well_before_the_lease() {
        let (began, tries) = (Instant::now(), Cell::new(0));
        let end = keep::<Infallible, _>(lease(COUNTED), || {
            tries.set(tries.get() + 1);
            async { Renewal::Failed }
        });
        assert_eq!(end.await, LeaseEnd::RenewalsFailed);
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
                    30 => Renewal::Lost("enough"),
                    _ if number % 3 == 0 => Renewal::Renewed { term: TERM },
                    _ => Renewal::Failed,
                }
            }
        });
        assert_eq!(end.await, LeaseEnd::Lost("enough"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_counts_from_its_request_and_not_from_its_answer() {
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
        assert_eq!(end.await, LeaseEnd::Expired);
        assert!(asked.get().unwrap().elapsed() < TERM);
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_that_was_paused_past_its_lease_does_not_renew_it() {
        let stale = lease(COUNTED);
        tokio::time::advance(TERM).await;
        let end = keep::<Infallible, _>(stale, || async { unreachable!("nothing is renewed") }).await;
        assert_eq!(end, LeaseEnd::Expired);
    }
}
