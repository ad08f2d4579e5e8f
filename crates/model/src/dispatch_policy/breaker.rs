//! A circuit breaker for the policy service.

use std::time::Duration;

use crate::Timestamp;

/// Allows calls until too many fail in a row, then one probe per pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    failures_max: u32,
    pause: Duration,
    /// Failures since the last success.
    failures: u32,
    away_since: Option<Timestamp>,
    /// When the next probe is allowed, while the breaker is open.
    probe_at: Option<Timestamp>,
}

/// Whether a call is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Permission {
    Ask,
    /// The one call that checks whether the service has recovered.
    Probe,
    Refused,
}

crate::named_enum! {
    pub enum BreakerState {
        Closed = "closed",
        Open = "open",
        HalfOpen = "half_open",
    }
}

impl Breaker {
    pub fn new(failures_max: u32, pause: Duration) -> Self {
        Self { failures_max: failures_max.max(1), pause, failures: 0, away_since: None, probe_at: None }
    }

    /// Requests one call. A probe that never reports its outcome is replaced after one pause.
    pub fn ask(&mut self, now: Timestamp) -> Permission {
        match self.probe_at {
            None => Permission::Ask,
            Some(at) if at <= now => {
                self.probe_at = Some(now + self.pause);
                Permission::Probe
            }
            Some(_) => Permission::Refused,
        }
    }

    /// Records an answered call. True if the service has recovered with it.
    pub fn succeeded(&mut self) -> bool {
        let is_back = self.failures > 0;
        *self = Self::new(self.failures_max, self.pause);
        is_back
    }

    /// Records a call without an answer.
    pub fn failed(&mut self, now: Timestamp) {
        self.failures = self.failures.saturating_add(1);
        self.away_since.get_or_insert(now);
        if self.failures >= self.failures_max {
            self.probe_at = Some(now + self.pause);
        }
    }

    /// When the current series of failures began.
    pub fn away_since(&self) -> Option<Timestamp> {
        self.away_since
    }

    pub fn state(&self, now: Timestamp) -> BreakerState {
        match self.probe_at {
            None => BreakerState::Closed,
            Some(at) if at <= now => BreakerState::HalfOpen,
            Some(_) => BreakerState::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(2);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_794_700_800_000 + millis)
    }

    #[test]
    fn it_opens_after_consecutive_failures_and_a_success_resets_them() {
        let mut breaker = Breaker::new(3, PAUSE);
        breaker.failed(at(0));
        breaker.failed(at(1));
        assert!(breaker.succeeded(), "the service has recovered");
        assert!(!breaker.succeeded(), "it was not failing");
        for moment in [10, 11] {
            breaker.failed(at(moment));
            assert_eq!(breaker.ask(at(moment)), Permission::Ask);
        }
        breaker.failed(at(12));
        assert_eq!(breaker.ask(at(13)), Permission::Refused);
        assert_eq!((breaker.away_since(), breaker.state(at(13))), (Some(at(10)), BreakerState::Open));
    }

    #[test]
    fn after_the_pause_the_outcome_of_one_probe_decides() {
        let mut breaker = Breaker::new(1, PAUSE);
        breaker.failed(at(0));
        assert_eq!(breaker.ask(at(1_999)), Permission::Refused);
        assert_eq!(breaker.state(at(2_000)), BreakerState::HalfOpen);
        assert_eq!(breaker.ask(at(2_000)), Permission::Probe);
        assert_eq!(breaker.ask(at(2_001)), Permission::Refused, "there is one probe");
        breaker.failed(at(2_500));
        assert_eq!(breaker.ask(at(4_499)), Permission::Refused, "the pause begins with the failure");
        assert_eq!(breaker.ask(at(4_500)), Permission::Probe);
        assert_eq!(breaker.away_since(), Some(at(0)));
        assert!(breaker.succeeded());
        assert_eq!((breaker.ask(at(4_501)), breaker.away_since()), (Permission::Ask, None));
    }

    #[test]
    fn a_probe_without_an_outcome_is_replaced_after_a_pause() {
        let mut breaker = Breaker::new(1, PAUSE);
        breaker.failed(at(0));
        assert_eq!(breaker.ask(at(2_000)), Permission::Probe);
        assert_eq!(breaker.ask(at(4_000)), Permission::Probe);
    }
}
