//! Run leases: acquired to advance a run, extended, released.

use std::time::Duration;

use interlock_model::run::{Head, Start};
use interlock_model::{Fence, InstanceId, RunId, TenantId, Timestamp};

use super::draft::Draft;
use super::inbox;
use super::rows::{self, RunLease};
use super::store::{Decide, Look};
use super::tables::{Decided, Decision, Pick, Table, View, read};
use crate::StoreError;
use crate::runs::{AcquiredRun, RunHolder, RunOwnership};
use crate::verbs::{AcquireReadyRuns, AcquireRun, ExtendRunLease, ReadRunOwnership, ReleaseRun};

/// Ready runs that one call looks at. Those that other instances hold are passed over.
const LOOKED_AT_MAX: usize = 512;

impl Decide for AcquireReadyRuns {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Vec<AcquiredRun>> {
        let mut draft = Draft::new(view, now, &self.tenant);
        let mut acquired = Vec::new();
        for row in draft.scan_tenant(Table::Ready, Pick::First(LOOKED_AT_MAX))? {
            if acquired.len() == self.limit {
                break;
            }
            let Ok(run) = rows::last_part(&row.key).parse::<RunId>() else { continue };
            let Some(free) = free_run(view, now, &self.tenant, run)? else { continue };
            acquired.push(draft.lease_run(free, &self.holder, self.lease)?);
        }
        Ok(draft.answer(acquired))
    }
}

impl Decide for AcquireRun {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<Option<AcquiredRun>> {
        let mut draft = Draft::new(view, now, &self.tenant);
        if !draft.has(Table::Ready, &rows::run(&self.tenant, self.run))? {
            return Ok(Decision::unchanged(None));
        }
        let Some(free) = free_run(view, now, &self.tenant, self.run)? else {
            return Ok(Decision::unchanged(None));
        };
        let acquired = draft.lease_run(free, &self.holder, self.lease)?;
        Ok(draft.answer(Some(acquired)))
    }
}

impl Draft<'_> {
    pub(super) fn lease_run(
        &mut self,
        free: AcquiredRun,
        holder: &InstanceId,
        lease: Duration,
    ) -> Result<AcquiredRun, StoreError> {
        let fence = self.mint_fence()?;
        let lease = RunLease { holder: holder.clone(), fence, expires_at: self.now + lease };
        self.put(Table::RunLeases, rows::run(self.id, free.start.run), &lease);
        Ok(AcquiredRun { fence, ..free })
    }
}

/// The run with its inbox, unless an instance holds it. It has no fence yet.
pub(super) fn free_run(
    view: &dyn View,
    now: Timestamp,
    tenant: &TenantId,
    run: RunId,
) -> Result<Option<AcquiredRun>, StoreError> {
    let key = rows::run(tenant, run);
    let lease: Option<RunLease> = read(view, Table::RunLeases, &key)?;
    if lease.is_some_and(|lease| now < lease.expires_at) {
        return Ok(None);
    }
    let (start, head): (Option<Start>, Option<Head>) =
        (read(view, Table::Starts, &key)?, read(view, Table::Heads, &key)?);
    let (Some(start), Some(head)) = (start, head) else { return Ok(None) };
    let (inbox, inbox_end) = inbox::read_all(view, tenant, run)?;
    Ok(Some(AcquiredRun { start, head, inbox, inbox_end, fence: Fence::NONE, now }))
}

impl Look for ReadRunOwnership {
    fn look(&self, view: &dyn View, now: Timestamp) -> Result<RunOwnership, StoreError> {
        let key = rows::run(&self.tenant, self.run);
        let lease: Option<RunLease> = read(view, Table::RunLeases, &key)?;
        let live = lease.filter(|lease| now < lease.expires_at);
        Ok(RunOwnership {
            now,
            is_ready: view.get(Table::Ready, &key)?.is_some(),
            holder: live
                .map(|lease| RunHolder { instance: Some(lease.holder), until: Some(lease.expires_at) }),
        })
    }
}

impl Decide for ExtendRunLease {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<()> {
        let mut draft = Draft::new(view, now, &self.tenant);
        let key = rows::run(&self.tenant, self.run);
        let head: Option<Head> = draft.read(Table::Heads, &key)?;
        let head = head.ok_or_else(|| StoreError::not_found("run", self.run))?;
        let lease: Option<RunLease> = draft.read(Table::RunLeases, &key)?;
        let current = lease.as_ref().map_or(head.fence, |lease| lease.fence);
        let Some(lease) = lease.filter(|lease| lease.fence == self.fence && now < lease.expires_at) else {
            return Err(StoreError::Fenced { held: self.fence, current });
        };
        draft.put(Table::RunLeases, key, &RunLease { expires_at: now + self.lease, ..lease });
        Ok(draft.answer(()))
    }
}

impl Decide for ReleaseRun {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<()> {
        let mut draft = Draft::new(view, now, &self.tenant);
        let key = rows::run(&self.tenant, self.run);
        let lease: Option<RunLease> = draft.read(Table::RunLeases, &key)?;
        // Another instance's lease is not the caller's to end; a run that was released before stays released.
        if lease.is_some_and(|lease| lease.fence == self.fence) {
            draft.delete(Table::RunLeases, key);
        }
        Ok(draft.answer(()))
    }
}
