//! How long a holder may trust its lease, and when it asks for more time.
//!
//! The store counts from when it heard the holder; the holder counts from when it asked, which is earlier, and stops a
//! margin before that. So it has stopped before the store lets another in, whatever became of the answer.
//!
//! Times are durations since any one moment, the same for all of one trust, on a clock that never goes back. Best is one
//! that also counts while the machine sleeps; no clock counts a pause that the machine cannot see, and there only the
//! fence helps.

use std::time::Duration;

/// The largest `jitter` of [`Trust::renews_at`].
pub const JITTER_MAX: u32 = 200;

/// Time to stop the work in and to let what it has sent arrive, however short the lease.
const MARGIN_MIN: Duration = Duration::from_millis(50);

/// What a holder knows of its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trust {
    ttl: Duration,
    failures_max: u32,
    /// When the grant, or the last renewal that was confirmed, was asked for.
    confirmed: Duration,
    /// When a renewal was last given up on, and how soon it is asked for again.
    retry: Option<(Duration, Duration)>,
    failures: u32,
}

/// Why a holder has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distrust {
    /// Nothing was confirmed for so long that the lease may have run out.
    Deadline,
    /// So many renewals in a row certainly did not happen.
    Failures(u32),
}

impl Trust {
    /// A lease of `ttl` that was granted and had been asked for at `asked`.
    #[must_use]
    pub fn granted(ttl: Duration, failures_max: u32, asked: Duration) -> Self {
        Self { ttl, failures_max, confirmed: asked, retry: None, failures: 0 }
    }

    /// What the holder stops ahead of the lease's end.
    #[must_use]
    pub fn margin(ttl: Duration) -> Duration {
        (ttl / 10).max(MARGIN_MIN).min(ttl / 3)
    }

    /// The holder may work until then.
    #[must_use]
    pub fn until(&self) -> Duration {
        self.confirmed + self.ttl.saturating_sub(Self::margin(self.ttl))
    }

    /// When to ask for more time: after a third of the lease, a tenth more or less by `jitter`, which is at most
    /// [`JITTER_MAX`]; sooner where the last try came to nothing.
    #[must_use]
    pub fn renews_at(&self, jitter: u32) -> Duration {
        let due = match self.retry {
            Some((ended, pause)) => ended + pause,
            None => self.confirmed + self.ttl / 3 * (1_000 - JITTER_MAX / 2 + jitter.min(JITTER_MAX)) / 1_000,
        };
        due.min(self.until())
    }

    /// How long to wait for the answer to a renewal that is asked for at `asked`, so that there is time for another.
    #[must_use]
    pub fn patience(&self, asked: Duration) -> Duration {
        (asked + self.ttl / 6).min(self.until())
    }

    /// The renewal that was asked for at `asked` was confirmed: the lease is of `ttl` from then on.
    pub fn renewed(&mut self, asked: Duration, ttl: Duration) {
        (self.ttl, self.confirmed, self.retry, self.failures) = (ttl, asked, None, 0);
    }

    /// A renewal certainly did not happen, as was known at `now`.
    pub fn failed(&mut self, now: Duration) {
        self.failures += 1;
        self.retry = Some((now, self.ttl / 6));
    }

    /// A renewal may have happened, or not: neither the one nor the other is built on, and it is asked for again.
    pub fn unknown(&mut self, now: Duration) {
        self.retry = Some((now, self.ttl / 12));
    }

    /// Why the holder has to stop at `now`, if it has to.
    #[must_use]
    pub fn ends(&self, now: Duration) -> Option<Distrust> {
        if self.failures >= self.failures_max {
            return Some(Distrust::Failures(self.failures));
        }
        (now >= self.until()).then_some(Distrust::Deadline)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn trust_is_counted_from_the_asking_and_ends_before_the_lease() {
        let mut trust = Trust::granted(MINUTE, 3, seconds(100));
        assert_eq!(trust.until(), seconds(154));
        trust.renewed(seconds(120), MINUTE);
        assert_eq!(trust.until(), seconds(174));
        assert_eq!(trust.ends(seconds(173)), None);
        assert_eq!(trust.ends(seconds(174)), Some(Distrust::Deadline));
    }

    #[test]
    fn renewals_come_at_a_third_of_the_lease_a_tenth_more_or_less() {
        let trust = Trust::granted(MINUTE, 3, Duration::ZERO);
        assert_eq!(trust.renews_at(JITTER_MAX / 2), seconds(20));
        assert_eq!(trust.renews_at(0), seconds(18));
        assert_eq!(trust.renews_at(JITTER_MAX), seconds(22));
        assert_eq!(trust.renews_at(u32::MAX), seconds(22));
    }

    #[test]
    fn l21_three_failures_in_a_row_are_noticed_before_the_lease_ends() {
        let mut trust = Trust::granted(MINUTE, 3, Duration::ZERO);
        let mut now = Duration::ZERO;
        for failures in 1..=3 {
            now = trust.renews_at(JITTER_MAX);
            assert_eq!(trust.ends(now), None, "after {} failures", failures - 1);
            trust.failed(now);
        }
        assert_eq!(trust.ends(now), Some(Distrust::Failures(3)));
        assert!(now < trust.until(), "{now:?}");
    }

    #[test]
    fn a_renewal_that_got_through_makes_up_for_failures() {
        let mut trust = Trust::granted(MINUTE, 3, Duration::ZERO);
        trust.failed(seconds(20));
        trust.failed(seconds(30));
        trust.renewed(seconds(40), MINUTE);
        trust.failed(seconds(60));
        trust.failed(seconds(70));
        assert_eq!(trust.ends(seconds(70)), None);
    }

    #[test]
    fn l16_an_unknown_outcome_is_neither_loss_nor_success() {
        let mut trust = Trust::granted(MINUTE, 3, Duration::ZERO);
        for at in [25, 35, 45] {
            trust.unknown(seconds(at));
            assert_eq!(trust.ends(seconds(at)), None);
            assert_eq!(trust.until(), seconds(54), "nothing was confirmed");
        }
        assert_eq!(trust.renews_at(0), seconds(50), "it is asked for again, soon");
    }

    #[derive(Debug, Clone, Copy)]
    enum Answer {
        Confirmed,
        Failed,
        Lost,
    }

    fn answers() -> impl Strategy<Value = Vec<(Answer, u64, u32)>> {
        let answer = prop_oneof![Just(Answer::Confirmed), Just(Answer::Failed), Just(Answer::Lost)];
        prop::collection::vec((answer, 0..u64::MAX, 0..=JITTER_MAX), 1..40)
    }

    proptest! {
        /// The store hears a renewal when it was asked for, or later, and lets another in `ttl` after it. Requests whose
        /// answers are lost may have been heard, or not: the earliest possible end is what counts.
        #[test]
        fn a_holder_stops_a_margin_before_the_store_can_let_another_in(
            ttl in 1_u64..3_600_000, answers in answers(),
        ) {
            let ttl = Duration::from_millis(ttl);
            let mut trust = Trust::granted(ttl, 3, Duration::ZERO);
            let mut heard = Duration::ZERO;
            let mut now = Duration::ZERO;
            for (answer, delay, jitter) in answers {
                let asked = trust.renews_at(jitter).max(now);
                if trust.ends(asked).is_some() {
                    break;
                }
                prop_assert!(asked > now, "a renewal is never asked for in a tight loop");
                let patience = trust.patience(asked);
                let wait = u64::try_from(patience.saturating_sub(asked).as_millis()).unwrap().max(1);
                now = asked + Duration::from_millis(delay % wait);
                match answer {
                    Answer::Confirmed => {
                        heard = asked;
                        trust.renewed(asked, ttl);
                    }
                    Answer::Failed => trust.failed(now),
                    Answer::Lost => {
                        now = patience;
                        trust.unknown(now);
                    }
                }
                prop_assert!(trust.until() + Trust::margin(ttl) <= heard + ttl);
                prop_assert!(trust.renews_at(jitter) <= trust.until());
            }
        }
    }
}
