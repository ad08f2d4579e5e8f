//! Why a run has no slot yet: the limit that it waits for, and the runs that hold its slots.

use interlock_backend::StoreError;
use interlock_backend::limits::HeldSlot;
use interlock_backend::verbs::{ListLimits, ListSlots, ReadLimitUsage, ReadRun};
use interlock_model::admission::Usage;
use interlock_model::limit::TENANT_RUNS;
use interlock_model::limit::document::Pause;
use interlock_model::limit::group::Fullness;
use interlock_model::limit::place::{Blocked, QueuedRun};
use interlock_model::tenant::SlotFlow;
use interlock_model::why::{self, Cause, CauseCode, Holder, LimitReason, LimitWait, SlotOwner, WaitOutcome};
use interlock_model::{RunId, TenantId, Timestamp};

use super::run::waits;
use super::{HOLDERS_MAX, Why, WhyAnswer};
use crate::limit_usage::{self, RunWait};

impl Why {
    /// None: it waits for no slot any more.
    pub(super) async fn why_no_slot(
        &self,
        tenant: &TenantId,
        run: RunId,
        now: Timestamp,
    ) -> Result<Option<Cause>, StoreError> {
        let Some(wait) = limit_usage::run_wait(&self.store, tenant, run, now).await? else { return Ok(None) };
        let RunWait { queued: QueuedRun { waiting, position, quiet, .. }, blocked, pause } = &wait;
        let outcome = WaitOutcome::Queued { position: *position };
        let cause = self.why_in_group(tenant, (blocked, pause.as_ref()), outcome, now).await?;
        let cause = Cause { since: Some(waiting.place.at), ..cause };
        if let Some(quiet) = quiet {
            return Ok(Some(Cause { holders: Vec::new(), ..cause.ending(quiet.until, now) }));
        }
        let expected_wait = position.and_then(|position| blocked.expected_wait(position, now));
        Ok(Some(Cause { position: *position, expected_wait, ..cause }))
    }

    /// What a start would meet that this limit decides about.
    pub async fn start_in(
        &self,
        tenant: &TenantId,
        blocked: &Blocked,
        outcome: WaitOutcome,
    ) -> Result<WhyAnswer, StoreError> {
        let now = self.process.now();
        let limits = limit_usage::TenantLimits::read(&self.store, tenant).await?;
        let cause = self.why_in_group(tenant, (blocked, limits.pause(&blocked.limit)), outcome, now).await?;
        let state = if blocked.fullness == Fullness::Paused { "paused" } else { "full" };
        Ok(WhyAnswer::new(state, now, vec![cause]))
    }

    /// The group of a limit that decides, with who holds its slots.
    async fn why_in_group(
        &self,
        tenant: &TenantId,
        (blocked, pause): (&Blocked, Option<&Pause>),
        outcome: WaitOutcome,
        now: Timestamp,
    ) -> Result<Cause, StoreError> {
        let (name, group) = (blocked.limit.clone(), blocked.group.clone());
        let list = ListSlots { tenant: tenant.clone(), name, group, limit: HOLDERS_MAX };
        let held = self.store.call(list).await?;
        let oldest = self.slot_owner(tenant, held.first().map(|held| (held.run, held.since))).await?;
        let sentence = LimitWait { blocked, outcome, now, oldest: oldest.as_ref(), pause }.sentence();
        let holder = |held: HeldSlot| {
            let name = held.run.to_string();
            Holder { name, since: Some(held.since), until: None }
        };
        let holders = held.into_iter().map(holder).collect();
        Ok(Cause { holders, ..Cause::new(code(blocked), sentence) })
    }

    /// The run with what it does now.
    pub(super) async fn slot_owner(
        &self,
        tenant: &TenantId,
        held: Option<(RunId, Timestamp)>,
    ) -> Result<Option<SlotOwner>, StoreError> {
        let Some((run, since)) = held else { return Ok(None) };
        let found = self.store.call(ReadRun { tenant: tenant.clone(), run }).await?;
        let step = found.and_then(|found| {
            let mut busy = found.steps.into_iter().filter(|(_, step)| waits(step));
            busy.next().map(|(key, _)| key)
        });
        Ok(Some(SlotOwner { run, since, step }))
    }

    /// None: the tenant is not paused.
    pub(super) async fn why_tenant_paused(
        &self,
        tenant: &TenantId,
        usage: Usage,
        now: Timestamp,
    ) -> Result<Option<Cause>, StoreError> {
        let Some(pause) = self.store.call(ListLimits { tenant: tenant.clone() }).await?.paused else {
            return Ok(None);
        };
        let own = why::of_tenant(usage, SlotFlow::default());
        let blocked = Blocked { fullness: Fullness::Paused, ..own };
        let (outcome, pause) = (WaitOutcome::Rejected, Some(&pause));
        let sentence = LimitWait { blocked: &blocked, outcome, now, oldest: None, pause }.sentence();
        Ok(Some(Cause { since: pause.map(|pause| pause.at), ..Cause::new(code(&blocked), sentence) }))
    }

    /// How fast the tenant's own slots become free.
    pub(super) async fn slot_flow(&self, tenant: &TenantId) -> Result<SlotFlow, StoreError> {
        let name = TENANT_RUNS.parse().expect("it is a name");
        let usage = self.store.call(ReadLimitUsage { tenant: tenant.clone(), name, group: None }).await?;
        Ok(usage.groups.first().map(|found| found.state.slot_flow).unwrap_or_default())
    }
}

fn code(blocked: &Blocked) -> CauseCode {
    match blocked.reason() {
        LimitReason::Queued => CauseCode::Queued,
        LimitReason::Blocked => CauseCode::Blocked,
        LimitReason::Impossible => CauseCode::Impossible,
        LimitReason::Debounced => CauseCode::Debounced,
    }
}
