//! Slots: acquired by an admission, released by the commit that ends the run, which grants them to runs that wait.

mod debounce;
mod fair;
mod fair_queue;
mod grants;
mod groups;
mod overlay;
mod queue;
mod replace;

use interlock_model::admission::Usage;
use interlock_model::limit::EffectiveLimits;
use interlock_model::limit::document::QueueOrder;
use interlock_model::limit::fair::FairCharge;
use interlock_model::limit::group::Group;
use interlock_model::limit::rule::SlotClaim;
use interlock_model::run::Start;
use interlock_model::tenant::Tenant;
use interlock_model::{RunId, TenantId, Timestamp, WorkflowId};
use serde::{Deserialize, Serialize};

use super::draft::Draft;
use super::tables::{Table, View, read};
use super::{rows, tenants};
use crate::StoreError;
use crate::tenants::LimitScope;

pub(super) use groups::LoadedGroups;
pub(super) use overlay::Overlay;
pub(super) use queue::{QueueEntry, debounced_run, queue_end, queued_run, queued_runs};

/// A tenant with the limits that apply to it, read in the same step that uses them.
pub(super) struct LimitedTenant {
    pub tenant: Tenant,
    pub limits: EffectiveLimits,
}

/// The row of a run that holds a slot of a named limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SlotHolder {
    pub since: Timestamp,
    pub workflow: WorkflowId,
    /// What the fair queue of the limit has charged for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<FairCharge>,
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
    /// Gives a run a slot of its tenant, and of each group that it counts in. `waited_in`: the queue from which it comes.
    pub(super) fn acquire_slots(
        &mut self,
        run: RunId,
        workflow: &WorkflowId,
        claims: &[SlotClaim],
        waited_in: Option<&SlotClaim>,
    ) -> Result<(), StoreError> {
        let now = self.now;
        self.mark(Table::Active, rows::run(self.id, run));
        self.change_group(&SlotClaim::tenant_runs(), |group, rule| group.acquire(rule, now))?;
        self.acquire_limit_slots(run, workflow, claims, waited_in)
    }

    /// Gives a run a slot of each of these groups.
    pub(super) fn acquire_limit_slots(
        &mut self,
        run: RunId,
        workflow: &WorkflowId,
        claims: &[SlotClaim],
        waited_in: Option<&SlotClaim>,
    ) -> Result<(), StoreError> {
        let now = self.now;
        for claim in claims {
            let mut charge = None;
            if self.group(claim)?.rule.queue.order == QueueOrder::Fair {
                let group = self.run_slots(run)?.unwrap_or_default().fair_group(&claim.limit);
                charge = Some(self.charge_run((claim, group), workflow, waited_in == Some(claim))?);
            }
            let holder = SlotHolder { since: now, workflow: workflow.clone(), charge };
            self.put(Table::LimitSlots, rows::limit_slot(self.id, claim, run), &holder);
            self.change_group(claim, |group, rule| group.acquire(rule, now))?;
        }
        Ok(())
    }

    /// Gives a live run back the slots that it has lost, even if that is one too many. It started long ago: no rate
    /// counts it.
    pub(super) fn restore_slots(&mut self, run: RunId) -> Result<(), StoreError> {
        let key = rows::run(self.id, run);
        let Start { workflow, created_at, .. } = self.require(Table::Starts, &key, ("run", &run))?;
        let holder = SlotHolder { since: created_at, workflow, charge: None };
        let slots = self.run_slots(run)?.unwrap_or_default();
        for claim in slots.claims {
            let slot = rows::limit_slot(self.id, &claim, run);
            if !self.has(Table::LimitSlots, &slot)? {
                self.put(Table::LimitSlots, slot, &holder);
                self.change_group(&claim, |group, _| group.live += 1)?;
            }
        }
        // A child runs in the slot of its root.
        if slots.parent.is_none() && !self.has(Table::Active, &key)? {
            self.mark(Table::Active, key);
            self.change_group(&SlotClaim::tenant_runs(), |group, _| group.live += 1)?;
        }
        Ok(())
    }

    /// Releases the slots of `run`, or takes it out of its queue, and grants what is free. A second time does nothing.
    /// Returns how many runs got their slots.
    pub(super) fn release_slots(&mut self, run: RunId) -> Result<u32, StoreError> {
        let (key, now) = (rows::run(self.id, run), self.now);
        let Some(slots) = self.run_slots(run)? else {
            if !self.has(Table::Active, &key)? {
                return Ok(0);
            }
            self.delete(Table::Active, key);
            let tenant_runs = SlotClaim::tenant_runs();
            self.change_group(&tenant_runs, |group, _| group.release(now))?;
            return self.grant_slots(&[tenant_runs]);
        };
        self.leave_queue(run)?;
        self.leave_debounce(run)?;
        self.forget_run_slots(run);
        let (mut freed, mut run_ms) = (Vec::new(), None);
        for claim in &slots.claims {
            let slot = rows::limit_slot(self.id, claim, run);
            let Some(holder) = self.read::<SlotHolder>(Table::LimitSlots, &slot)? else { continue };
            if let Some(charge) = &holder.charge {
                let measured = run_ms.map_or_else(|| self.measure_run(&slots, &holder), Ok)?;
                run_ms = Some(measured);
                self.settle_run(claim, charge, measured)?;
            }
            self.delete(Table::LimitSlots, slot);
            self.change_group(claim, |group, _| group.release(now))?;
            freed.push(claim.clone());
        }
        if self.has(Table::Active, &key)? {
            self.delete(Table::Active, key);
            freed.push(SlotClaim::tenant_runs());
            self.change_group(&SlotClaim::tenant_runs(), |group: &mut Group, _| group.release(now))?;
        }
        self.grant_slots(&freed)
    }
}
