//! Whether the machine's clock was set while the server ran.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::StoreError;
use interlock_backend::clock::ElapsedClock;
use interlock_backend::inspection::{Probe, Probed};
use interlock_model::Clock as _;
use interlock_model::doctor::{Finding, Invariant, RepairOutcome};

/// Clocks differ by less: NTP moves the wall clock a little at a time.
const LEAD_MAX_MS: i64 = 2_000;

const LOOK_EVERY: Duration = Duration::from_secs(5);

pub(super) struct ClockProbe(pub(super) Arc<ElapsedClock>);

#[async_trait]
impl Probe for ClockProbe {
    async fn probe(&self) -> Vec<Probed> {
        let lead = self.0.wall_lead();
        if lead.abs() <= LEAD_MAX_MS {
            return vec![Probed::Sound(Invariant::ClockSkew)];
        }
        let (invariant, subject) = (Invariant::ClockSkew, "clock".to_owned());
        vec![Probed::Found(Finding {
            invariant,
            tenant: None,
            subject,
            detail: sentence(lead),
            is_repairable: false,
        })]
    }

    async fn repair(&self, _: Invariant, _: &str) -> Result<RepairOutcome, StoreError> {
        Ok(RepairOutcome::NothingToDo)
    }
}

/// Logs when the clock was set, for as long as it runs.
pub(super) async fn follow(clock: Arc<ElapsedClock>) {
    let mut known = 0;
    loop {
        let lead = clock.wall_lead();
        if (lead - known).abs() > LEAD_MAX_MS {
            tracing::warn!(lead_ms = lead, "{}", sentence(lead));
            known = lead;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn sentence(lead: i64) -> String {
    let (seconds, side) = (lead.unsigned_abs() / 1_000, if lead > 0 { "ahead of" } else { "behind" });
    format!(
        "the machine's clock was set: it is {seconds} s {side} the store's, which follows elapsed time until the server \
         starts again"
    )
}
