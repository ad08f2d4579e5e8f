//! How long a holder may rely on its lease, and when it renews.
//!
//! The store counts the lease from when it receives a renewal. The holder counts from when it sent the renewal, which is
//! earlier, and stops a margin before the end. It has therefore stopped before the store grants to another, even if the
//! answer was lost.
//!
//! Times are durations since one fixed point on a monotonic clock. Use a clock that also advances while the machine
//! sleeps. No clock sees a pause of the virtual machine itself; there, only the fence protects.

use std::time::Duration;

/// The largest `jitter` of [`Trust::renews_at`].
pub const JITTER_MAX: u32 = 200;

/// Minimum time to stop the work and to let its last writes arrive.
const MARGIN_MIN: Duration = Duration::from_millis(50);

/// A holder's view of its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trust {
    ttl: Duration,
    failures_max: u32,
    /// When the last confirmed grant or renewal was sent.
    confirmed: Duration,
    /// When to try again, after a renewal that was not confirmed.
    retry_at: Option<Duration>,
    failures: u32,
}

/// Why a holder must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distrust {
    /// Without a confirmed renewal, the lease may have expired.
    Deadline,
    /// This many consecutive renewals were not confirmed.
    Failures(u32),
}

impl Trust {
    /// A lease of `ttl`, requested at `asked` and granted.
    pub fn granted(ttl: Duration, failures_max: u32, asked: Duration) -> Self {
        Self { ttl, failures_max, confirmed: asked, retry_at: None, failures: 0 }
    }

    /// How long before the end of the lease the holder stops.
    pub fn margin(ttl: Duration) -> Duration {
        (ttl / 10).max(MARGIN_MIN).min(ttl / 3)
    }

    /// The holder must stop at this time.
    pub fn until(&self) -> Duration {
        self.confirmed + self.ttl.saturating_sub(Self::margin(self.ttl))
    }

    /// When to renew: after a third of the lease, ±10 % by `jitter` (at most [`JITTER_MAX`]); sooner after a failed
    /// renewal.
    pub fn renews_at(&self, jitter: u32) -> Duration {
        let share = 1_000 - JITTER_MAX / 2 + jitter.min(JITTER_MAX);
        let due = self.retry_at.unwrap_or_else(|| self.confirmed + self.ttl / 3 * share / 1_000);
        due.min(self.until())
    }

    /// When to give up on a renewal sent at `asked`, so that there is time for another.
    pub fn patience(&self, asked: Duration) -> Duration {
        (asked + self.ttl / 6).min(self.until())
    }

    /// The renewal sent at `asked` was confirmed with a lease of `ttl`.
    pub fn renewed(&mut self, asked: Duration, ttl: Duration) {
        (self.ttl, self.confirmed, self.retry_at, self.failures) = (ttl, asked, None, 0);
    }

    /// The renewal sent at `asked` was not confirmed by `now`. Whether it happened or not, it is sent again.
    pub fn failed(&mut self, asked: Duration, now: Duration) {
        self.failures += 1;
        self.retry_at = Some((asked + self.ttl / 6).max(now + self.ttl / 12));
    }

    /// Why the holder must stop at `now`, if it must.
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
    fn trust_counts_from_the_request_and_ends_before_the_lease() {
        let mut trust = Trust::granted(MINUTE, 3, seconds(100));
        assert_eq!(trust.until(), seconds(154));
        trust.renewed(seconds(120), MINUTE);
        assert_eq!(trust.until(), seconds(174));
        assert_eq!(trust.ends(seconds(173)), None);
        assert_eq!(trust.ends(seconds(174)), Some(Distrust::Deadline));
    }

    #[test]
    fn renewals_are_due_after_a_third_of_the_lease_with_jitter() {
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
            trust.failed(now, now);
        }
        assert_eq!(trust.ends(now), Some(Distrust::Failures(3)));
        assert!(now < trust.until(), "{now:?}");
    }

    #[test]
    fn a_successful_renewal_resets_the_failures() {
        let mut trust = Trust::granted(MINUTE, 3, Duration::ZERO);
        trust.failed(seconds(20), seconds(20));
        trust.failed(seconds(30), seconds(30));
        trust.renewed(seconds(40), MINUTE);
        trust.failed(seconds(60), seconds(60));
        trust.failed(seconds(70), seconds(70));
        assert_eq!(trust.ends(seconds(70)), None);
    }

    #[test]
    fn l16_a_renewal_without_an_answer_confirms_nothing_and_is_sent_again() {
        let mut trust = Trust::granted(MINUTE, 3, Duration::ZERO);
        for (asked, answered, again) in [(20, 30, 35), (35, 36, 45)] {
            trust.failed(seconds(asked), seconds(answered));
            assert_eq!(trust.ends(seconds(answered)), None);
            assert_eq!(trust.until(), seconds(54), "nothing was confirmed");
            assert_eq!(
                trust.renews_at(0),
                seconds(again),
                "a quick failure is not followed by another at once"
            );
        }
        trust.failed(seconds(45), seconds(46));
        assert_eq!(trust.ends(seconds(46)), Some(Distrust::Failures(3)));
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
        /// The store receives a renewal when it is sent or later, and grants to another `ttl` after that. A request with a
        /// lost answer may not have arrived, so the earliest possible end counts.
        #[test]
        fn a_holder_stops_a_margin_before_the_store_can_grant_to_another(
            ttl in 1_u64..3_600_000, answers in answers(),
        ) {
            let ttl = Duration::from_millis(ttl);
            let mut trust = Trust::granted(ttl, 3, Duration::ZERO);
            let mut received = Duration::ZERO;
            let mut now = Duration::ZERO;
            for (answer, delay, jitter) in answers {
                let asked = trust.renews_at(jitter).max(now);
                if trust.ends(asked).is_some() {
                    break;
                }
                prop_assert!(asked > now, "a renewal is never sent in a tight loop");
                let patience = trust.patience(asked);
                let wait = u64::try_from(patience.saturating_sub(asked).as_millis()).unwrap().max(1);
                now = asked + Duration::from_millis(delay % wait);
                match answer {
                    Answer::Confirmed => {
                        received = asked;
                        trust.renewed(asked, ttl);
                    }
                    Answer::Failed => trust.failed(asked, now),
                    Answer::Lost => {
                        now = patience;
                        trust.failed(asked, now);
                    }
                }
                prop_assert!(trust.until() + Trust::margin(ttl) <= received + ttl);
                prop_assert!(trust.renews_at(jitter) <= trust.until());
            }
        }
    }
}
