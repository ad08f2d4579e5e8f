//! How much data each tenant may bring per second: one tenant's large inputs and outputs must not take the store's time from
//! all others.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use interlock_model::TenantId;
use tokio::time::Instant;

use crate::error::Refusal;

/// Bodies up to this size do not count: almost all are, and they cost little.
const FREE_BYTES: usize = 64 << 10;

/// What a tenant may bring at once after it has been quiet, as a time of its rate.
const BURST: Duration = Duration::from_secs(1);

/// The longest that a request waits. A client would give up soon after.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Tenants to remember before those that are quiet are forgotten.
const REMEMBERED: usize = 1_000;

/// Lets large bodies pass at a steady rate for each tenant.
#[derive(Debug)]
pub(crate) struct Ingest {
    bytes_per_sec: u64,
    /// When all that a tenant has brought is worked off at its rate.
    settled_at: Mutex<HashMap<TenantId, Instant>>,
}

impl Ingest {
    pub(crate) fn new(bytes_per_sec: u64) -> Self {
        Self { bytes_per_sec: bytes_per_sec.max(1), settled_at: Mutex::default() }
    }

    /// Waits until the tenant may bring this many bytes. An error if that would take too long; then they do not count.
    pub(crate) async fn pass(&self, tenant: &TenantId, bytes: usize) -> Result<(), Refusal> {
        if bytes <= FREE_BYTES {
            return Ok(());
        }
        let now = Instant::now();
        let pass_at = self.reserve(tenant, bytes, now).ok_or_else(|| {
            Refusal::unavailable(&format!(
                "the tenant brings more large bodies than {} bytes per second; nothing was done",
                self.bytes_per_sec
            ))
        })?;
        tokio::time::sleep_until(pass_at).await;
        Ok(())
    }

    fn reserve(&self, tenant: &TenantId, bytes: usize, now: Instant) -> Option<Instant> {
        let micros = (bytes as u64).saturating_mul(1_000_000) / self.bytes_per_sec;
        let mut settled_at = self.settled_at.lock().unwrap_or_else(PoisonError::into_inner);
        if settled_at.len() >= REMEMBERED {
            settled_at.retain(|_, at| *at > now);
        }
        let before = settled_at.get(tenant).map_or(now, |at| (*at).max(now));
        let pass_at = before.checked_sub(BURST).map_or(now, |at| at.max(now));
        if pass_at > now + WAIT_MAX {
            return None;
        }
        settled_at.insert(tenant.clone(), before + Duration::from_micros(micros));
        Some(pass_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_brings_a_burst_at_once_and_the_rest_at_its_rate() {
        let ingest = Ingest::new(1 << 20);
        let (greedy, other): (TenantId, TenantId) = ("greedy".parse().unwrap(), "other".parse().unwrap());
        let now = Instant::now();
        let wait = |tenant: &TenantId| ingest.reserve(tenant, 1 << 20, now).map(|at| at - now);
        assert_eq!(wait(&greedy), Some(Duration::ZERO));
        for second in 0..=20 {
            assert_eq!(wait(&greedy), Some(Duration::from_secs(second)), "one body per second");
        }
        assert_eq!(wait(&greedy), None, "a wait of more than {WAIT_MAX:?} is refused");
        assert_eq!(wait(&greedy), None, "a refused body does not count");
        assert_eq!(wait(&other), Some(Duration::ZERO), "another tenant does not wait");
        let later = now + Duration::from_secs(21);
        assert_eq!(ingest.reserve(&greedy, 1 << 20, later), Some(later), "time works it off");
    }

    #[tokio::test]
    async fn small_bodies_pass_however_many_there_are() {
        let ingest = Ingest::new(1);
        for _ in 0..1_000 {
            ingest.pass(&"acme".parse().unwrap(), FREE_BYTES).await.unwrap();
        }
    }
}
