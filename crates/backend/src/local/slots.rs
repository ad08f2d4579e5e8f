//! Slots: acquired by an admission, released by the commit that ends the run, which grants them to runs that wait.

use interlock_model::admission::Usage;
use interlock_model::limit::EffectiveLimits;
use interlock_model::run::InboxEvent;
use interlock_model::tenant::Tenant;
use interlock_model::{RunId, TenantId};

use super::draft::{Draft, decide};
use super::store::look;
use super::tables::{Pick, Table, View, read};
use super::{rows, tenants};
use crate::StoreError;
use crate::runs::GRANTED_AT_ONCE_MAX;
use crate::tenants::LimitScope;
use crate::verbs::{GrantSlots, ReadQueuePosition};

/// The name of the limit that is built in: the tenant's live runs.
const TENANT_RUNS: &str = "tenant-runs";

/// A tenant with the limits that apply to it, read in the same step that uses them.
pub(super) struct LimitedTenant {
    pub tenant: Tenant,
    pub limits: EffectiveLimits,
}

impl LimitedTenant {
    pub(super) fn read(view: &dyn View, id: &TenantId) -> Result<Self, StoreError> {
        let tenant = tenant(view, id)?;
        let system = tenants::written(view, &LimitScope::System)?;
        Ok(Self { limits: tenant.limits.under(system.limits), tenant })
    }

    pub(super) fn usage(&self) -> Usage {
        Usage { runs_active: self.tenant.runs_active, runs_max: self.limits.runs_max }
    }
}

pub(super) fn tenant(view: &dyn View, id: &TenantId) -> Result<Tenant, StoreError> {
    Ok(read(view, Table::Tenants, id.as_str())?.unwrap_or_default())
}

impl Draft<'_> {
    pub(super) fn acquire_slot(&mut self, run: RunId) -> Result<(), StoreError> {
        self.tenant()?.runs_active += 1;
        self.mark(Table::Active, rows::run(self.id, run));
        Ok(())
    }

    /// Releases the slot of `run`, or takes it out of the queue, and grants what is free. A second time does nothing.
    /// Returns how many runs got a slot.
    pub(super) fn release_slot(&mut self, run: RunId) -> Result<u32, StoreError> {
        let (key, now) = (rows::run(self.id, run), self.now);
        self.leave_queue(run)?;
        if !self.has(Table::Active, &key)? {
            return Ok(0);
        }
        self.delete(Table::Active, key);
        let tenant = self.tenant()?;
        tenant.runs_active = tenant.runs_active.saturating_sub(1);
        tenant.slot_flow = tenant.slot_flow.freed(now);
        self.grant_slots(Some(run))
    }

    /// Puts a run behind all that wait for a slot. Returns its position.
    pub(super) fn enter_queue(&mut self, run: RunId) -> Result<u64, StoreError> {
        let tenant = self.tenant()?;
        tenant.arrivals += 1;
        tenant.runs_queued += 1;
        let (place, position) = (tenant.arrivals, tenant.runs_queued.into());
        self.mark(Table::RunQueue, rows::queued_run(self.id, place, run));
        self.put(Table::QueuedRuns, rows::run(self.id, run), &place);
        Ok(position)
    }

    fn leave_queue(&mut self, run: RunId) -> Result<(), StoreError> {
        let key = rows::run(self.id, run);
        if let Some(place) = self.read::<u64>(Table::QueuedRuns, &key)? {
            self.delete(Table::RunQueue, rows::queued_run(self.id, place, run));
            self.delete(Table::QueuedRuns, key);
            let tenant = self.tenant()?;
            tenant.runs_queued = tenant.runs_queued.saturating_sub(1);
        }
        Ok(())
    }

    /// Gives free slots to the runs that have waited longest, but for one that is leaving, and makes them ready. Returns to
    /// how many.
    pub(super) fn grant_slots(&mut self, leaving: Option<RunId>) -> Result<u32, StoreError> {
        if self.tenant()?.runs_queued == 0 {
            return Ok(0);
        }
        let system = tenants::written(self.view, &LimitScope::System)?.limits;
        let tenant = self.tenant()?;
        let runs_max = tenant.limits.under(system).runs_max;
        let free = runs_max.saturating_sub(tenant.runs_active) as usize;
        let wanted = free.min(GRANTED_AT_ONCE_MAX);
        let waiting = self.scan_tenant(Table::RunQueue, Pick::First(wanted + 2))?;
        let mut waiting = waiting.iter().filter_map(|row| rows::last_part(&row.key).parse().ok());
        let mut granted = 0;
        for run in waiting.by_ref().filter(|run| Some(*run) != leaving).take(wanted) {
            self.leave_queue(run)?;
            self.acquire_slot(run)?;
            self.post(run, &[InboxEvent::Granted { at: self.now }])?;
            granted += 1;
        }
        if granted as usize == wanted && wanted < free && waiting.any(|run| Some(run) != leaving) {
            self.mark(Table::LimitTimers, rows::timed(self.id, self.now, &TENANT_RUNS));
        }
        Ok(granted)
    }
}

decide!(GrantSlots, |_verb, draft| draft.grant_slots(None));

look!(ReadQueuePosition, |verb, view| position(view, &verb.tenant, verb.run));

/// The position of a run among those that wait for a slot, counted from 1. None: it does not wait.
pub(super) fn position(view: &dyn View, tenant: &TenantId, run: RunId) -> Result<Option<u64>, StoreError> {
    let Some(place) = read::<u64>(view, Table::QueuedRuns, &rows::run(tenant, run))? else { return Ok(None) };
    let until = rows::queued_run(tenant, place, run);
    let before = view.scan(Table::RunQueue, &rows::of_tenant(tenant), &until, Pick::First(usize::MAX))?;
    Ok(Some(before.len() as u64 + 1))
}
