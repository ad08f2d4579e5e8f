//! Why a start is refused: who has the tenant's slots.

use interlock_backend::runs::{RunFilter, RunSummary};
use interlock_backend::verbs::{ListActiveRuns, ListRuns, ReadUsage};
use interlock_backend::{PageRequest, StoreError};
use interlock_model::admission::Usage;
use interlock_model::why::{self, Cause, CauseCode, Holder, LimitWait, WaitOutcome};
use interlock_model::{RunId, TenantId};

use super::{HOLDERS_MAX, Why, WhyAnswer};

/// Ended runs that tell how long runs last.
const RUNS_LOOKED_AT: usize = 100;

/// Live runs that are looked at: the one that ends first is most likely among the oldest.
const LIVE_LOOKED_AT: usize = 100;

impl Why {
    /// What a start of the tenant would wait for now.
    pub async fn start(&self, tenant: &TenantId) -> Result<WhyAnswer, StoreError> {
        let (now, usage) = (self.process.now(), self.store.call(ReadUsage { tenant: tenant.clone() }).await?);
        if let Some(cause) = self.why_tenant_paused(tenant, usage, now).await? {
            return Ok(WhyAnswer::new("paused", now, vec![cause]));
        }
        if usage.free() > 0 {
            let Usage { runs_active, runs_max } = usage;
            let sentence = format!("a start would be admitted: {runs_active} of {runs_max} slots are taken");
            return Ok(WhyAnswer::new("free", now, vec![Cause::new(CauseCode::Free, sentence)]));
        }
        let active = ListActiveRuns { tenant: tenant.clone(), limit: LIVE_LOOKED_AT };
        let holder = |run: RunId| Holder { name: run.to_string(), since: Some(run.made_at()), until: None };
        let active = self.store.call(active).await?;
        let oldest = active.first().map(|run| (*run, run.made_at()));
        let holders: Vec<_> = active.into_iter().map(holder).collect();
        let ages: Vec<_> =
            holders.iter().filter_map(|holder| holder.since).map(|since| now.since(since)).collect();
        // With a cap that was lowered, more than one has to end.
        let to_end = usage.runs_active.saturating_sub(usage.runs_max) as usize + 1;
        let (filter, page) = (RunFilter::default(), PageRequest { limit: RUNS_LOOKED_AT, after: None });
        let runs = self.store.call(ListRuns { tenant: tenant.clone(), filter, page }).await?;
        let lasted: Vec<_> = runs.items.iter().filter_map(lasted).collect();
        let flow = self.slot_flow(tenant).await?;
        let (blocked, oldest) = (why::of_tenant(usage, flow), self.slot_owner(tenant, oldest).await?);
        let outcome = WaitOutcome::Rejected;
        let wait = LimitWait { blocked: &blocked, outcome, now, oldest: oldest.as_ref(), pause: None };
        let cause = Cause {
            since: holders.iter().filter_map(|holder| holder.since).max(),
            expected_wait: why::until_have_ended(to_end, &ages, &lasted).filter(|_| usage.runs_max > 0),
            holders: holders.into_iter().take(HOLDERS_MAX).collect(),
            ..Cause::new(CauseCode::CapFull, wait.sentence())
        };
        Ok(WhyAnswer::new("full", now, vec![cause]))
    }
}

fn lasted(run: &RunSummary) -> Option<std::time::Duration> {
    Some(run.head.completed_at?.since(run.start.created_at))
}
