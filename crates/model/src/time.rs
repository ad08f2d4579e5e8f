//! Timestamps in whole milliseconds since 1970. The store's clock decides every expiry.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time on the store's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

/// The last valid time: RFC 3339 ends with the year 9999, and time zones need room at its end.
const LAST_MILLIS: u64 = 253_370_764_799_999;

impl Timestamp {
    pub const ZERO: Self = Self(0);

    pub fn from_millis(millis: u64) -> Self {
        Self(millis.min(LAST_MILLIS))
    }

    pub fn as_millis(self) -> u64 {
        self.0
    }

    pub fn as_micros(self) -> u64 {
        self.0 * 1_000
    }

    /// The time since `earlier`; zero if that lies in the future.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(millis(time)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(millis(time)))
    }
}

/// A duration in whole milliseconds.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// RFC 3339 in UTC, with milliseconds.
impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = i64::try_from(self.0).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_millisecond(millis).map_err(|_| fmt::Error)?;
        write!(out, "{time:.3}")
    }
}

/// A text that is not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an RFC 3339 time such as 2026-01-31T12:00:00Z, in the years 1970 to 9998")]
pub struct InvalidTime(String);

impl FromStr for Timestamp {
    type Err = InvalidTime;

    fn from_str(text: &str) -> Result<Self, InvalidTime> {
        let invalid = || InvalidTime(text.chars().take(80).collect());
        let time: jiff::Timestamp = text.parse().map_err(|_| invalid())?;
        u64::try_from(time.as_millisecond()).map(Self::from_millis).map_err(|_| invalid())
    }
}

/// The source of time. Simulations use a paused clock.
pub trait Clock: Send + Sync + std::fmt::Debug {
    fn now(&self) -> Timestamp;

    /// From now on it shows at least this time. Only a clock that follows elapsed time can do that.
    fn catch_up_with(&self, _mark: Timestamp) {}

    /// How far the wall clock is ahead of this one, in milliseconds; negative if it is behind. Only a clock that follows
    /// elapsed time is another than the wall clock.
    fn wall_lead(&self) -> i64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_round_trips() {
        let moment = Timestamp::from_millis(1_794_700_800_123);
        assert_eq!(moment.to_string(), "2026-11-15T00:00:00.123Z");
        assert_eq!(moment.to_string().parse(), Ok(moment));
    }

    #[test]
    fn arithmetic_never_leaves_the_calendar() {
        let last = Timestamp::from_millis(u64::MAX);
        assert_eq!(last + Duration::MAX, last);
        assert_eq!(last.to_string(), "9998-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::ZERO - Duration::from_secs(1), Timestamp::ZERO);
    }
}
