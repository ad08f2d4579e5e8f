//! Windows: the hour, day or month of a calendar, or one for each run, or one for all time.
//!
//! A window is named by its period and where it begins, so that what was reserved in one is settled there, whatever the
//! time is by then, and a changed time zone begins a new window.

use std::fmt;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Zoned};
use serde::{Deserialize, Serialize};

use crate::Timestamp;

crate::named_enum! {
    /// How long an amount lasts.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Period {
        Hour = "hour",
        Day = "day",
        Month = "month",
        /// Each run has the amount.
        Run = "run",
        /// It never resets.
        Total = "total",
    }
}

impl Period {
    pub fn is_calendar(self) -> bool {
        match self {
            Self::Hour | Self::Day | Self::Month => true,
            Self::Run | Self::Total => false,
        }
    }
}

/// One window, by the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Window {
    pub per: Period,
    pub from: Timestamp,
    /// When the next one begins. None: it never ends by itself.
    pub until: Option<Timestamp>,
}

impl Window {
    /// The window that `now` is in. None: it is beyond the calendar.
    pub fn at(per: Period, zone: &TimeZone, now: Timestamp) -> Option<Self> {
        if !per.is_calendar() {
            return Some(Self { per, from: Timestamp::ZERO, until: None });
        }
        let millis = i64::try_from(now.as_millis()).ok()?;
        let now = jiff::Timestamp::from_millisecond(millis).ok()?.to_zoned(zone.clone());
        let (from, until) = match per {
            Period::Hour => hour(zone, &now)?,
            Period::Day => (begin(zone, now.date())?, begin(zone, now.date().tomorrow().ok()?)?),
            Period::Month | Period::Run | Period::Total => {
                let first = now.date().first_of_month();
                (begin(zone, first)?, begin(zone, first.last_of_month().tomorrow().ok()?)?)
            }
        };
        Some(Self { per, from: timestamp(from)?, until: Some(timestamp(until)?) })
    }

    /// Whether it is the window at this time.
    pub fn contains(&self, now: Timestamp) -> bool {
        self.from <= now && self.until.is_none_or(|until| now < until)
    }
}

/// Its name in the ledger.
impl fmt::Display for Window {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.per.is_calendar() {
            write!(out, "{}-{:015}", self.per.name(), self.from.as_millis())
        } else {
            out.write_str(self.per.name())
        }
    }
}

/// The first moment of a day. Where the clock is set forward at midnight, a day begins later.
fn begin(zone: &TimeZone, date: Date) -> Option<jiff::Timestamp> {
    Some(date.to_zoned(zone.clone()).ok()?.timestamp())
}

/// The hour on the clock face. It is cut where the clock is set: an hour that comes twice is two windows.
fn hour(zone: &TimeZone, now: &Zoned) -> Option<(jiff::Timestamp, jiff::Timestamp)> {
    let into = i64::from(now.minute()) * 60 + i64::from(now.second());
    let into = SignedDuration::new(into, now.subsec_nanosecond());
    let from = now.timestamp().checked_sub(into).ok()?;
    let until = from.checked_add(SignedDuration::from_hours(1)).ok()?;
    // A change of the clock right now belongs to the window that it begins.
    let next = now.timestamp().checked_add(SignedDuration::from_nanos(1)).ok()?;
    let last_change = zone.preceding(next).next().map(|change| change.timestamp());
    let next_change = zone.following(now.timestamp()).next().map(|change| change.timestamp());
    Some((
        last_change.map_or(from, |change| change.max(from)),
        next_change.map_or(until, |change| change.min(until)),
    ))
}

/// Windows begin at whole milliseconds, and not before 1970.
fn timestamp(time: jiff::Timestamp) -> Option<Timestamp> {
    u64::try_from(time.as_millisecond().max(0)).ok().map(Timestamp::from_millis)
}
