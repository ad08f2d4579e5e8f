//! Taking a run to advance it, and letting go of it.

use std::time::Duration;

use interlock_model::run::{Head, Start};
use interlock_model::{Fence, InstanceId, RunId, TenantId, Timestamp};

use super::rows::{self, RunLease};
use super::tables::{Changes, Decision, Pick, Table, View, read, scan_prefix};
use super::{inbox, slots};
use crate::StoreError;
use crate::runs::{RunHold, RunStanding, Taken};

/// Ready runs that one call looks at. Those that others hold are passed over.
const LOOKED_AT_MAX: usize = 512;

pub(super) fn take_ready(
    view: &dyn View,
    now: Timestamp,
    id: &TenantId,
    (holder, lease): (&InstanceId, Duration),
    limit: usize,
) -> Result<Decision<Vec<Taken>>, StoreError> {
    let ready = scan_prefix(view, Table::Ready, &rows::of_tenant(id), Pick::First(LOOKED_AT_MAX))?;
    let mut changes = Changes::default();
    let mut tenant = slots::tenant(view, id)?;
    let mut taken = Vec::new();
    for row in ready {
        if taken.len() == limit {
            break;
        }
        let Ok(run) = rows::last_part(&row.key).parse::<RunId>() else { continue };
        let Some(found) = free_run(view, now, id, run)? else { continue };
        let fence = tenant.mint_fence(now);
        let held = RunLease { holder: holder.clone(), fence, expires_at: now + lease };
        changes.put(Table::RunLeases, rows::run(id, run), &held);
        taken.push(Taken { fence, ..found });
    }
    if !taken.is_empty() {
        changes.put(Table::Tenants, id.as_str(), &tenant);
    }
    Ok(Decision { answer: taken, changes })
}

pub(super) fn take(
    view: &dyn View,
    now: Timestamp,
    (id, run): (&TenantId, RunId),
    (holder, lease): (&InstanceId, Duration),
) -> Result<Decision<Option<Taken>>, StoreError> {
    if view.get(Table::Ready, &rows::run(id, run))?.is_none() {
        return Ok(Decision::unchanged(None));
    }
    let Some(found) = free_run(view, now, id, run)? else { return Ok(Decision::unchanged(None)) };
    let mut tenant = slots::tenant(view, id)?;
    let fence = tenant.mint_fence(now);
    let mut changes = Changes::default();
    let held = RunLease { holder: holder.clone(), fence, expires_at: now + lease };
    changes.put(Table::RunLeases, rows::run(id, run), &held);
    changes.put(Table::Tenants, id.as_str(), &tenant);
    Ok(Decision { answer: Some(Taken { fence, ..found }), changes })
}

/// The run with its inbox, unless somebody holds it.
pub(super) fn free_run(
    view: &dyn View,
    now: Timestamp,
    tenant: &TenantId,
    run: RunId,
) -> Result<Option<Taken>, StoreError> {
    let key = rows::run(tenant, run);
    let lease: Option<RunLease> = read(view, Table::RunLeases, &key)?;
    if lease.is_some_and(|lease| now < lease.expires_at) {
        return Ok(None);
    }
    let (start, head): (Option<Start>, Option<Head>) =
        (read(view, Table::Starts, &key)?, read(view, Table::Heads, &key)?);
    let (Some(start), Some(head)) = (start, head) else { return Ok(None) };
    let (inbox, inbox_end) = inbox::read_all(view, tenant, run)?;
    Ok(Some(Taken { start, head, inbox, inbox_end, fence: Fence::NONE, now }))
}

pub(super) fn standing(
    view: &dyn View,
    now: Timestamp,
    tenant: &TenantId,
    run: RunId,
) -> Result<RunStanding, StoreError> {
    let key = rows::run(tenant, run);
    let lease: Option<RunLease> = read(view, Table::RunLeases, &key)?;
    let hold = lease.filter(|lease| now < lease.expires_at);
    Ok(RunStanding {
        now,
        is_ready: view.get(Table::Ready, &key)?.is_some(),
        hold: hold.map(|lease| RunHold { holder: Some(lease.holder), until: Some(lease.expires_at) }),
    })
}

pub(super) fn keep(
    view: &dyn View,
    now: Timestamp,
    (tenant, run): (&TenantId, RunId),
    fence: Fence,
    lease: Duration,
) -> Result<Decision<()>, StoreError> {
    let key = rows::run(tenant, run);
    let Some(head) = read::<Head>(view, Table::Heads, &key)? else {
        return Err(StoreError::not_found("run", run));
    };
    let kept: Option<RunLease> = read(view, Table::RunLeases, &key)?;
    let current = kept.as_ref().map_or(head.fence, |kept| kept.fence);
    let Some(kept) = kept.filter(|kept| kept.fence == fence && now < kept.expires_at) else {
        return Err(StoreError::Fenced { held: fence, current });
    };
    let mut changes = Changes::default();
    changes.put(Table::RunLeases, key, &RunLease { expires_at: now + lease, ..kept });
    Ok(Decision { answer: (), changes })
}

pub(super) fn let_go(
    view: &dyn View,
    tenant: &TenantId,
    run: RunId,
    fence: Fence,
) -> Result<Decision<()>, StoreError> {
    let key = rows::run(tenant, run);
    let held: Option<RunLease> = read(view, Table::RunLeases, &key)?;
    let mut changes = Changes::default();
    // Somebody else's hold is none of ours to end; having been let go of already is fine.
    if held.is_some_and(|lease| lease.fence == fence) {
        changes.delete(Table::RunLeases, key);
    }
    Ok(Decision { answer: (), changes })
}
