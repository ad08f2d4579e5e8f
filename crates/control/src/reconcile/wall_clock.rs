//! `delay_until` follows the wall clock, and timers the clock of the store. A wall clock that is set forward makes steps
//! due whose timers are not.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_model::{Clock, TenantId};

use super::{ROWS_MAX, Reconcilers};
use crate::every_tenant::EveryTenant;

/// NTP moves the wall clock by less at a time.
const STEP_MS: i64 = 1_000;

/// Pages of timers of one tenant that are fired after the clock was set.
const PAGES_MAX: usize = 10_000;

/// How far the wall clock is ahead of the store's, as the timers know it at least.
pub(super) struct WallClock(AtomicI64);

impl WallClock {
    pub(super) fn of(clock: &dyn Clock) -> Self {
        Self(AtomicI64::new(clock.wall_lead()))
    }
}

impl Reconcilers {
    /// After the wall clock was set forward, fires the timers that it may have made due. Turns that come too early set
    /// their timers again, as they do after it was set back. Returns how many were fired.
    pub(super) async fn follow_wall_clock(&self) -> Result<usize, StoreError> {
        let known = self.wall_clock.0.load(Ordering::Relaxed);
        let lead = self.process.clock.wall_lead();
        let mut fired = 0;
        if lead >= known && lead - known < STEP_MS {
            return Ok(fired);
        }
        if lead > known {
            let ahead = Duration::from_millis(lead.abs_diff(known));
            let mut tenants = EveryTenant::default();
            while let Some(tenant) = tenants.next(&self.process).await? {
                fired += self.fire_all_within(&tenant, ahead).await?;
            }
        }
        self.wall_clock.0.store(lead, Ordering::Relaxed);
        Ok(fired)
    }

    async fn fire_all_within(&self, tenant: &TenantId, ahead: Duration) -> Result<usize, StoreError> {
        let mut fired = 0;
        for _ in 0..PAGES_MAX {
            let page = self.fire_timers_within(tenant, ahead).await?;
            fired += page;
            if page < ROWS_MAX {
                break;
            }
        }
        Ok(fired)
    }
}
