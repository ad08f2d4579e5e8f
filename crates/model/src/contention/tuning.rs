//! Contention strategies and their tunings.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::retry::{InvalidPolicy, RetryPolicy};

crate::named_enum! {
    /// How a start is decided.
    #[derive(Default)]
    pub enum AdmissionStrategy {
        /// In one atomic step of the store.
        #[default]
        Atomic = "atomic",
        /// Under a lock of the tenant: reserve the key, count, create.
        Lock = "lock",
    }
}

crate::named_enum! {
    /// How a result reaches its run.
    #[derive(Default)]
    pub enum RunStrategy {
        /// Through the run's inbox, which the owner of the run drains.
        #[default]
        Inbox = "inbox",
        /// Under the run's lock. A result whose run is busy is delivered again later.
        Lock = "lock",
    }
}

crate::named_enum! {
    /// The lock that a tuning applies to.
    #[derive(PartialOrd, Ord)]
    pub enum Scope {
        /// The admission lock of a tenant.
        Admission = "admission",
        /// The lock of a run, for results that arrive while it is held.
        LockBusy = "lock_busy",
    }
}

impl Scope {
    /// The documented default.
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

/// Accepts the name with `-`, as on the command line, or with `_`, as in documents.
impl FromStr for Scope {
    type Err = InvalidPolicy;

    fn from_str(text: &str) -> Result<Self, InvalidPolicy> {
        Self::named(&text.replace('-', "_"))
            .ok_or_else(|| InvalidPolicy::new(format!("unknown scope {text:?}: use admission or lock-busy")))
    }
}

/// How to wait for a contended lock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// The delay between two attempts; for a result, until its next delivery.
    pub policy: RetryPolicy,
    /// How long a start may wait for the lock; for a result over HTTP, how long until it is deferred.
    pub max_wait_ms: u64,
    /// The lease of the lock.
    pub lock_ttl_ms: u64,
}

const WAIT_MAX_MS: u64 = 60_000;
const TTL_MS: std::ops::RangeInclusive<u64> = 100..=3_600_000;

impl Tuning {
    /// The tuning, if it is within bounds.
    pub fn checked(self) -> Result<Self, InvalidPolicy> {
        self.policy.checked()?;
        if self.max_wait_ms > WAIT_MAX_MS {
            return Err(InvalidPolicy::new(format!("invalid max_wait_ms: use 0 to {WAIT_MAX_MS}")));
        }
        if !TTL_MS.contains(&self.lock_ttl_ms) {
            return Err(InvalidPolicy::new(format!(
                "invalid lock_ttl_ms: use {} to {}",
                TTL_MS.start(),
                TTL_MS.end()
            )));
        }
        Ok(self)
    }

    pub fn max_wait(&self) -> Duration {
        Duration::from_millis(self.max_wait_ms)
    }

    pub fn lock_ttl(&self) -> Duration {
        Duration::from_millis(self.lock_ttl_ms)
    }
}
