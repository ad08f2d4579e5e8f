//! When the client of a rejected start should come back.

use std::time::Duration;

use interlock_model::limit::group::Fullness;
use interlock_model::limit::place::Blocked;
use interlock_model::tenant::SlotFlow;
use interlock_model::time::millis;

use super::Admission;

impl Admission {
    /// When a refused client should come back: at the pace at which slots come free, with half of it as jitter on both
    /// sides, so that the refused do not return as one wave.
    pub fn retry_after(&self, flow: Option<SlotFlow>) -> Duration {
        let expected = flow.and_then(SlotFlow::expected_wait).unwrap_or_default();
        let settings = &self.process.settings;
        let (low, high) = (settings.retry_after_min, settings.retry_after_max);
        let middle = millis(expected.clamp(low, high));
        // The floor is part of the draw: cutting at it afterwards would gather a wave there.
        let wait = self.process.identity.between(millis(low).max(middle / 2), middle + middle / 2);
        Duration::from_millis(wait)
    }

    /// The same for a named limit. A rate says itself when the next start may pass; the jitter is behind that time.
    pub fn retry_after_limit(&self, blocked: &Blocked) -> Duration {
        let Fullness::Rate { next_at } = blocked.fullness else {
            return self.retry_after(Some(blocked.slot_flow));
        };
        let settings = &self.process.settings;
        let earliest = next_at.since(self.process.now()).max(settings.retry_after_min);
        let jitter = (earliest / 2).min(settings.retry_after_max);
        Duration::from_millis(self.process.identity.between(millis(earliest), millis(earliest + jitter)))
    }
}
