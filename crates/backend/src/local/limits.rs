//! Named limits: saved, paused, deleted and read.

use std::collections::BTreeMap;

use interlock_model::limit::document::QueueOrder;
use interlock_model::limit::group::Group;
use interlock_model::limit::place::RunSlots;
use interlock_model::limit::rule::{LIMITS_MAX, SlotClaim};
use interlock_model::limit::{GroupKey, TENANT_RUNS};
use interlock_model::tenant::Tenant;
use interlock_model::{LimitName, RunId, TenantId};

use super::draft::{Draft, decide};
use super::rows;
use super::slots::{self, QueueEntry, SlotHolder};
use super::store::look;
use super::system_limits::stored_limits;
use super::tables::{Pick, Table, View, parse, read, scan_prefix};
use crate::limits::{
    GROUPS_LOOKED_AT, GROUPS_SHOWN, GroupUsage, HeldSlot, LimitBook, LimitChange, LimitUsage, StoredLimit,
};
use crate::verbs::{
    DeleteLimit, ListLimits, ListQueuedRuns, ListSlots, MoveQueuedRun, PauseLimit, ReadLimitUsage,
    ReadQueuedRun, SaveLimit,
};
use crate::{Quota, StoreError};

impl Draft<'_> {
    /// The number of a change of the tenant's limits.
    fn next_limits_revision(&mut self) -> Result<u64, StoreError> {
        let tenant = self.tenant()?;
        tenant.limits_revision += 1;
        Ok(tenant.limits_revision)
    }

    fn limit_changed(&mut self, name: &LimitName, revision: u64) -> Result<LimitChange, StoreError> {
        Ok(LimitChange::Done { revision, granted: self.grant_all(name)? })
    }
}

decide!(SaveLimit, |verb, draft| {
    let before = draft.stored_limit(&verb.name)?;
    let revision_before = before.as_ref().map_or(0, |limit| limit.revision);
    if draft.tenant()?.limits_revision != verb.book || verb.replaces.is_some_and(|it| it != revision_before) {
        return Ok(LimitChange::Changed { revision: revision_before });
    }
    if before.is_none() {
        let tenant = draft.tenant()?;
        if tenant.named_limits >= LIMITS_MAX {
            return Err(StoreError::QuotaReached { quota: Quota::Limits, most: LIMITS_MAX });
        }
        tenant.named_limits += 1;
    }
    let revision = draft.next_limits_revision()?;
    let limit = StoredLimit {
        name: verb.name.clone(),
        document: verb.document.clone(),
        revision,
        saved_at: draft.now,
        paused: before.and_then(|limit| limit.paused),
    };
    draft.put_limit(&verb.name, Some(limit));
    draft.limit_changed(&verb.name, revision)
});

decide!(DeleteLimit, |verb, draft| {
    let before = draft.stored_limit(&verb.name)?.ok_or_else(|| StoreError::not_found("limit", &verb.name))?;
    if verb.replaces.is_some_and(|revision| revision != before.revision) {
        return Ok(LimitChange::Changed { revision: before.revision });
    }
    let tenant = draft.tenant()?;
    tenant.named_limits = tenant.named_limits.saturating_sub(1);
    let revision = draft.next_limits_revision()?;
    draft.put_limit(&verb.name, None);
    draft.limit_changed(&verb.name, revision)
});

decide!(PauseLimit, |verb, draft| {
    if verb.name.as_str() == TENANT_RUNS {
        draft.tenant()?.paused.clone_from(&verb.pause);
        let revision = draft.next_limits_revision()?;
        return draft.limit_changed(&verb.name, revision);
    }
    let before = draft.stored_limit(&verb.name)?.ok_or_else(|| StoreError::not_found("limit", &verb.name))?;
    let revision = draft.next_limits_revision()?;
    let limit = StoredLimit { revision, paused: verb.pause.clone(), ..before };
    draft.put_limit(&verb.name, Some(limit));
    draft.limit_changed(&verb.name, revision)
});

look!(ListLimits, |verb, view| {
    let Tenant { limits_revision, system_revision, paused, .. } = slots::tenant(view, &verb.tenant)?;
    let limits = stored_limits(view, &verb.tenant)?;
    Ok(LimitBook { revision: limits_revision, system: system_revision, limits, paused })
});

look!(ReadLimitUsage, |verb, view| {
    if verb.name.as_str() == TENANT_RUNS {
        return tenant_usage(view, &verb.tenant);
    }
    let (mut found, mut has_more) = (BTreeMap::new(), false);
    if let Some(group) = &verb.group {
        let claim = SlotClaim { limit: verb.name.clone(), group: group.clone() };
        let state: Option<Group> = read(view, Table::LimitGroups, &rows::group(&verb.tenant, &claim))?;
        found.extend(state.map(|state| (group.clone(), (state, 0))));
    } else {
        let all = rows::limit_queues(&verb.tenant, &verb.name);
        let rows = scan_prefix(view, Table::LimitGroups, &all, Pick::First(GROUPS_LOOKED_AT + 1))?;
        has_more = rows.len() > GROUPS_LOOKED_AT;
        for row in rows.iter().take(GROUPS_LOOKED_AT) {
            if let Some(claim) = rows::claim_of_group(&row.key) {
                found.insert(claim.group, (parse(Table::LimitGroups, &row.key, &row.value)?, 0));
            }
        }
    }
    let of_group = verb.group.as_ref().map(|group| rows::group_rows(&verb.tenant, &verb.name, group));
    let debounced = of_group.unwrap_or_else(|| rows::limit_queues(&verb.tenant, &verb.name));
    let rows = scan_prefix(view, Table::Debounced, &debounced, Pick::First(GROUPS_LOOKED_AT + 1))?;
    has_more |= rows.len() > GROUPS_LOOKED_AT;
    for claim in rows.iter().take(GROUPS_LOOKED_AT).filter_map(|row| rows::claim_of_group(&row.key)) {
        found.entry(claim.group).or_default().1 += 1;
    }
    let groups = found.into_iter();
    let groups = groups.map(|(group, (state, debounced))| GroupUsage { group, state, debounced });
    Ok(usage_of(groups.collect(), has_more))
});

fn tenant_usage(view: &dyn View, tenant: &TenantId) -> Result<LimitUsage, StoreError> {
    let tenant = slots::tenant(view, tenant)?;
    let state = Group {
        live: tenant.runs_active,
        queued: tenant.runs_queued,
        slot_flow: tenant.slot_flow,
        ..Group::default()
    };
    Ok(usage_of(vec![GroupUsage { group: GroupKey::default(), state, debounced: 0 }], false))
}

fn usage_of(mut groups: Vec<GroupUsage>, has_more: bool) -> LimitUsage {
    let total = |count: fn(&GroupUsage) -> u32| groups.iter().map(|usage| u64::from(count(usage))).sum();
    let live = total(|usage| usage.state.live);
    let queued = total(|usage| usage.state.queued);
    let debounced = total(|usage| usage.debounced);
    let busy = |usage: &GroupUsage| usage.state.live + usage.state.queued + usage.debounced;
    groups.sort_by_key(|usage| (std::cmp::Reverse(busy(usage)), usage.group.clone()));
    groups.truncate(GROUPS_SHOWN);
    LimitUsage { groups, live, queued, debounced, has_more }
}

look!(ListQueuedRuns, |verb, view| {
    let claim = SlotClaim { limit: verb.name.clone(), group: verb.group.clone() };
    slots::queued_runs(view, &verb.tenant, &claim, &verb.page)
});

look!(ListSlots, |verb, view| {
    if verb.name.as_str() == TENANT_RUNS {
        return tenant_slots(view, &verb.tenant, verb.limit);
    }
    let claim = SlotClaim { limit: verb.name.clone(), group: verb.group.clone() };
    let slots = rows::limit_slots(&verb.tenant, &claim);
    let rows = scan_prefix(view, Table::LimitSlots, &slots, Pick::First(verb.limit))?;
    let held = rows.iter().filter_map(|row| Some((row, rows::last_part(&row.key).parse().ok()?)));
    held.map(|(row, run)| {
        let SlotHolder { since, .. } = parse(Table::LimitSlots, &row.key, &row.value)?;
        Ok(HeldSlot { run, since })
    })
    .collect()
});

/// A tenant's own slots have no row that says since when: a run holds one from its start.
fn tenant_slots(view: &dyn View, tenant: &TenantId, limit: usize) -> Result<Vec<HeldSlot>, StoreError> {
    let rows = scan_prefix(view, Table::Active, &rows::of_tenant(tenant), Pick::First(limit))?;
    let runs = rows.iter().filter_map(|row| rows::last_part(&row.key).parse().ok());
    Ok(runs.map(|run: RunId| HeldSlot { run, since: run.made_at() }).collect())
}

look!(ReadQueuedRun, |verb, view| slots::queued_run(view, &verb.tenant, verb.run));

decide!(MoveQueuedRun, |verb, draft| {
    let Some(RunSlots { waiting: Some(waiting), .. }) = draft.run_slots(verb.run)? else {
        return Ok(false);
    };
    let claim = waiting.claim();
    let end = slots::queue_end(draft.view, draft.id, &claim, verb.to_front)?;
    let key = rows::queued_run(draft.id, &waiting, verb.run);
    let Some((entry, (at_end, score))) = draft.read::<QueueEntry>(Table::RunQueue, &key)?.zip(end) else {
        return Ok(false);
    };
    if draft.group(&claim)?.rule.queue.order == QueueOrder::Fair {
        draft.move_fair(&entry, &claim, verb.to_front)?;
    } else if at_end.run != verb.run {
        // Its arrival stays: what it was promised in other queues does not change.
        let score = if verb.to_front { score.saturating_sub(1) } else { score + 1 };
        draft.leave_queue(verb.run)?;
        draft.enter_queue_at(&entry, &claim, (score, None))?;
    }
    Ok(true)
});
