//! Strategies, and what they wait for how long.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::retry::{InvalidPolicy, RetryPolicy};

/// How a start is decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdmissionStrategy {
    /// In one step of the store. Nothing is waited for.
    #[default]
    Atomic,
    /// Under a lock of the tenant: reserve the key, count, create.
    Lock,
}

/// How a result reaches its run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStrategy {
    /// Through the run's inbox. Whoever holds the run drains it.
    #[default]
    Inbox,
    /// Under the run's lock. A result whose run is busy is delivered again, later.
    Lock,
}

impl AdmissionStrategy {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Atomic => "atomic",
            Self::Lock => "lock",
        }
    }
}

impl RunStrategy {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Inbox => "inbox",
            Self::Lock => "lock",
        }
    }
}

/// What a tuning is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The lock of a tenant's admissions.
    Admission,
    /// The lock of a run, for results that come while it is held.
    LockBusy,
}

impl Scope {
    pub const ALL: [Self; 2] = [Self::Admission, Self::LockBusy];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::LockBusy => "lock_busy",
        }
    }

    /// As documented.
    #[must_use]
    pub fn tuning(self) -> Tuning {
        match self {
            Self::Admission => Tuning {
                policy: RetryPolicy::Fixed { delay_ms: 10 },
                max_wait_ms: 2_000,
                lock_ttl_ms: 10_000,
            },
            Self::LockBusy => Tuning {
                policy: RetryPolicy::Fixed { delay_ms: 500 },
                max_wait_ms: 3_000,
                lock_ttl_ms: 30_000,
            },
        }
    }
}

/// The name, as the command line writes it or as documents do.
impl FromStr for Scope {
    type Err = InvalidPolicy;

    fn from_str(text: &str) -> Result<Self, InvalidPolicy> {
        let name = text.replace('-', "_");
        let found = Self::ALL.into_iter().find(|scope| scope.name() == name);
        found.ok_or_else(|| InvalidPolicy::new("there are the scopes admission and lock-busy".to_owned()))
    }
}

/// What somebody who wants a lock does until it has it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// Between two tries; for a result, until its next delivery.
    pub policy: RetryPolicy,
    /// How long a start may wait for the lock; for a result that came by HTTP, how long until it is put off.
    pub max_wait_ms: u64,
    /// How long the lock stays with a holder that is not heard of.
    pub lock_ttl_ms: u64,
}

/// The longest wait, and the shortest and the longest lease, that can be had.
const WAIT_MAX_MS: u64 = 60_000;
const TTL_MS: std::ops::RangeInclusive<u64> = 100..=3_600_000;

impl Tuning {
    /// The tuning, if its numbers make sense.
    pub fn checked(self) -> Result<Self, InvalidPolicy> {
        self.policy.checked()?;
        if self.max_wait_ms > WAIT_MAX_MS {
            return Err(InvalidPolicy::new(format!("max_wait_ms goes from 0 to {WAIT_MAX_MS}")));
        }
        if !TTL_MS.contains(&self.lock_ttl_ms) {
            return Err(InvalidPolicy::new(format!(
                "lock_ttl_ms goes from {} to {}",
                TTL_MS.start(),
                TTL_MS.end()
            )));
        }
        Ok(self)
    }

    #[must_use]
    pub fn max_wait(&self) -> Duration {
        Duration::from_millis(self.max_wait_ms)
    }

    #[must_use]
    pub fn lock_ttl(&self) -> Duration {
        Duration::from_millis(self.lock_ttl_ms)
    }
}
