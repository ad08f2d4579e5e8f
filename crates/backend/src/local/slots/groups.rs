//! Groups of limits, read once in a decision and written with it.

use std::collections::BTreeMap;

use interlock_model::LimitName;
use interlock_model::limit::document::LimitDocument;
use interlock_model::limit::group::{Fullness, Group, GroupRule};
use interlock_model::limit::judge::RuledGroup;
use interlock_model::limit::place::Blocked;
use interlock_model::limit::rule::SlotClaim;
use interlock_model::limit::{GroupKey, TENANT_RUNS};

use super::super::draft::Draft;
use super::super::rows;
use super::super::tables::Table;
use super::super::tenants;
use crate::StoreError;
use crate::limits::StoredLimit;
use crate::tenants::LimitScope;

/// The groups that a decision has looked at, and the limits that it has changed. None: deleted.
#[derive(Debug, Default)]
pub(in super::super) struct LoadedGroups {
    groups: BTreeMap<SlotClaim, LoadedGroup>,
    limits: BTreeMap<LimitName, Option<StoredLimit>>,
}

#[derive(Debug)]
struct LoadedGroup {
    rule: GroupRule,
    /// Of the groups of a fair queue.
    weights: BTreeMap<String, u32>,
    group: Group,
    before: Option<Group>,
    /// A timer of the group has fired.
    is_due: bool,
}

impl Draft<'_> {
    /// The group with what its limit demands. A limit that was deleted demands nothing.
    pub(in super::super) fn group(&mut self, claim: &SlotClaim) -> Result<RuledGroup, StoreError> {
        if claim.limit.as_str() == TENANT_RUNS {
            return self.tenant_group();
        }
        if let Some(loaded) = self.groups.groups.get(claim) {
            return Ok(RuledGroup { rule: loaded.rule, group: loaded.group, freed: 0 });
        }
        let (rule, weights) = self.group_rule(claim)?;
        let before: Option<Group> = self.read(Table::LimitGroups, &rows::group(self.id, claim))?;
        let group = before.unwrap_or_default();
        let loaded = LoadedGroup { rule, weights, group, before, is_due: false };
        self.groups.groups.insert(claim.clone(), loaded);
        Ok(RuledGroup { rule, group, freed: 0 })
    }

    pub(in super::super) fn stored_limit(&self, name: &LimitName) -> Result<Option<StoredLimit>, StoreError> {
        match self.groups.limits.get(name) {
            Some(changed) => Ok(changed.clone()),
            None => self.read(Table::Limits, &rows::limit(self.id, name)),
        }
    }

    /// Writes a limit. Its groups follow the new one from here on. None: deletes it.
    pub(in super::super) fn put_limit(&mut self, name: &LimitName, limit: Option<StoredLimit>) {
        let key = rows::limit(self.id, name);
        match &limit {
            Some(limit) => self.put(Table::Limits, key, limit),
            None => self.delete(Table::Limits, key),
        }
        self.groups.limits.insert(name.clone(), limit);
    }

    fn group_rule(&self, claim: &SlotClaim) -> Result<(GroupRule, BTreeMap<String, u32>), StoreError> {
        let limit = self.stored_limit(&claim.limit)?;
        let Some(StoredLimit { document, paused, .. }) = limit else {
            return Ok((LimitDocument::default().group_rule(false), BTreeMap::new()));
        };
        let rule = document.group_rule(paused.is_some());
        Ok((rule, document.queue.map(|queue| queue.weights).unwrap_or_default()))
    }

    /// The weight of a group of a fair queue.
    pub(super) fn weight(&mut self, claim: &SlotClaim, fair: &GroupKey) -> Result<u32, StoreError> {
        self.group(claim)?;
        let loaded = self.groups.groups.get(claim);
        Ok(loaded.and_then(|loaded| loaded.weights.get(fair.as_str())).copied().unwrap_or(1))
    }

    /// The group of the tenant's own slots, which its row counts.
    fn tenant_group(&mut self) -> Result<RuledGroup, StoreError> {
        let system = tenants::written(self.view, &LimitScope::System)?.limits;
        let tenant = self.tenant()?;
        let rule = tenant.limits.under(system).group_rule(tenant.paused.is_some());
        let group = Group {
            live: tenant.runs_active,
            queued: tenant.runs_queued,
            slot_flow: tenant.slot_flow,
            ..Group::default()
        };
        Ok(RuledGroup { rule, group, freed: 0 })
    }

    pub(in super::super) fn change_group(
        &mut self,
        claim: &SlotClaim,
        change: impl FnOnce(&mut Group, &GroupRule),
    ) -> Result<(), StoreError> {
        let RuledGroup { rule, mut group, .. } = self.group(claim)?;
        change(&mut group, &rule);
        if let Some(loaded) = self.groups.groups.get_mut(claim) {
            loaded.group = group;
        } else {
            let tenant = self.tenant()?;
            (tenant.runs_active, tenant.runs_queued) = (group.live, group.queued);
            tenant.slot_flow = group.slot_flow;
        }
        Ok(())
    }

    /// The time of a group has come: it is granted, or forgotten.
    pub(in super::super) fn group_due(&mut self, claim: &SlotClaim) -> Result<(), StoreError> {
        self.group(claim)?;
        if let Some(loaded) = self.groups.groups.get_mut(claim) {
            loaded.is_due = true;
        }
        Ok(())
    }

    /// What keeps a run from starting in this group.
    pub(in super::super) fn blocked(
        &mut self,
        claim: &SlotClaim,
        fullness: Fullness,
    ) -> Result<Blocked, StoreError> {
        Ok(self.group(claim)?.blocked(claim, fullness))
    }

    /// Writes the groups that have changed. Of one in which nothing happens any more, nothing is kept; one that only its
    /// rate remembers is forgotten by a timer.
    pub(in super::super) fn write_groups(&mut self) -> Result<(), StoreError> {
        for (claim, LoadedGroup { group, before, is_due, .. }) in std::mem::take(&mut self.groups.groups) {
            if before == Some(group) && !is_due || before.is_none() && group == Group::default() {
                continue;
            }
            let key = rows::group(self.id, &claim);
            if group.is_idle(self.now) {
                if before.is_some() {
                    self.delete(Table::LimitGroups, key);
                }
                if !group.fair.is_unused() {
                    self.forget_fair_groups(&claim)?;
                }
                continue;
            }
            if before != Some(group) {
                self.put(Table::LimitGroups, key, &group);
            }
            if let Some(at) = group.forgotten_at() {
                self.grant_at(at, &claim);
            }
        }
        Ok(())
    }
}
