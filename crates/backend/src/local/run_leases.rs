//! Run leases: acquired to advance a run, extended, released.

use std::time::Duration;

use interlock_model::run::{Head, Start};
use interlock_model::{Fence, InstanceId, RunId, Timestamp};

use super::draft::{Draft, decide};
use super::rows::{self, RunLease};
use super::slots::LimitedTenant;
use super::store::Look;
use super::tables::{Pick, Table, View, read};
use crate::StoreError;
use crate::runs::{AcquiredRun, RunHolder, RunOwnership};
use crate::verbs::{AcquireReadyRuns, AcquireRun, ExtendRunLease, ReadRunOwnership, ReleaseRun};

/// Ready runs that one call looks at. Those that other instances hold are passed over.
const LOOKED_AT_MAX: usize = 512;

decide!(AcquireReadyRuns, |verb, draft| {
    let mut acquired = Vec::new();
    for row in draft.scan_tenant(Table::Ready, Pick::First(LOOKED_AT_MAX))? {
        if acquired.len() == verb.limit {
            break;
        }
        let Ok(run) = rows::last_part(&row.key).parse::<RunId>() else { continue };
        let Some(free) = draft.free_run(run)? else { continue };
        acquired.push(draft.lease_run(free, &verb.holder, verb.lease)?);
    }
    Ok(acquired)
});

decide!(AcquireRun, |verb, draft| {
    if !draft.has(Table::Ready, &rows::run(&verb.tenant, verb.run))? {
        return Ok(None);
    }
    let Some(free) = draft.free_run(verb.run)? else { return Ok(None) };
    draft.lease_run(free, &verb.holder, verb.lease).map(Some)
});

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
    /// The run with its inbox, unless an instance holds it. It has no fence yet.
    pub(super) fn free_run(&self, run: RunId) -> Result<Option<AcquiredRun>, StoreError> {
        let (key, now) = (rows::run(self.id, run), self.now);
        let lease: Option<RunLease> = self.read(Table::RunLeases, &key)?;
        if lease.is_some_and(|lease| now < lease.expires_at) {
            return Ok(None);
        }
        let start: Option<Start> = self.read(Table::Starts, &key)?;
        let Some((start, head)) = start.zip(self.read(Table::Heads, &key)?) else { return Ok(None) };
        let (inbox, inbox_end) = self.inbox(run)?;
        let bounds = LimitedTenant::read(self.view, self.id)?.limits.bounds;
        Ok(Some(AcquiredRun { start, head, inbox, inbox_end, fence: Fence::NONE, now, bounds }))
    }
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

decide!(ExtendRunLease, |verb, draft| {
    let key = rows::run(&verb.tenant, verb.run);
    let head: Head = draft.require(Table::Heads, &key, ("run", &verb.run))?;
    let lease: Option<RunLease> = draft.read(Table::RunLeases, &key)?;
    let current = lease.as_ref().map_or(head.fence, |lease| lease.fence);
    let Some(lease) = lease.filter(|lease| lease.fence == verb.fence && draft.now < lease.expires_at) else {
        return Err(StoreError::Fenced { held: verb.fence, current });
    };
    draft.put(Table::RunLeases, key, &RunLease { expires_at: draft.now + verb.lease, ..lease });
    Ok(())
});

decide!(ReleaseRun, |verb, draft| {
    let key = rows::run(&verb.tenant, verb.run);
    let lease: Option<RunLease> = draft.read(Table::RunLeases, &key)?;
    // Another instance's lease is not the caller's to end; a run that was released before stays released.
    if lease.is_some_and(|lease| lease.fence == verb.fence) {
        draft.delete(Table::RunLeases, key);
    }
    Ok(())
});
