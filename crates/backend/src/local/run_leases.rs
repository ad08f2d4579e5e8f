//! Run leases: acquired to advance a run, extended, released.

use std::time::Duration;

use interlock_model::run::{Head, Quarantine, SUSPECT_FROM, Start};
use interlock_model::{Fence, InstanceId, RunId, TenantId, Timestamp};

use super::draft::{Draft, decide};
use super::rows::{self, RunLease};
use super::slots::LimitedTenant;
use super::store::Look;
use super::tables::{Pick, Table, View, read};
use crate::StoreError;
use crate::runs::{AcquiredRun, READY_BYTES_MAX, ReadyRuns, RunHolder, RunOwnership};
use crate::verbs::{AcquireReadyRuns, AcquireRun, ExtendRunLease, ReadRunOwnership, ReleaseRun};

/// Ready runs that one call looks at. Those that other instances hold are passed over.
pub(super) const LOOKED_AT_MAX: usize = 512;

decide!(AcquireReadyRuns, |verb, draft| {
    let (mut runs, mut has_suspects, mut bytes) = (Vec::new(), false, 0);
    for row in draft.scan_tenant(Table::Ready, Pick::First(LOOKED_AT_MAX))? {
        if runs.len() == verb.limit || bytes > READY_BYTES_MAX {
            break;
        }
        let Ok(run) = rows::last_part(&row.key).parse::<RunId>() else { continue };
        match draft.access(run)? {
            RunAccess::Free { tries } => {
                bytes += draft.start_bytes(run)?;
                runs.extend(draft.lease_run(run, (&verb.holder, verb.lease), tries + 1)?);
            }
            RunAccess::Suspect(_) => has_suspects = true,
            RunAccess::Quarantined => draft.delete(Table::Ready, row.key),
            RunAccess::Held => {}
        }
    }
    Ok(ReadyRuns { runs, has_suspects })
});

decide!(AcquireRun, |verb, draft| {
    let key = rows::run(&verb.tenant, verb.run);
    if !draft.has(Table::Ready, &key)? {
        return Ok(None);
    }
    match draft.access(verb.run)? {
        RunAccess::Free { tries } => draft.lease_run(verb.run, (&verb.holder, verb.lease), tries + 1),
        RunAccess::Quarantined => {
            draft.delete(Table::Ready, key);
            Ok(None)
        }
        RunAccess::Held | RunAccess::Suspect(_) => Ok(None),
    }
});

/// Whether a run can be acquired.
pub(super) enum RunAccess {
    /// After this many abandoned turns in a row.
    Free {
        tries: u32,
    },
    Held,
    /// Too many holders neither committed nor released it, or it is to be cancelled though it is quarantined.
    Suspect(Box<RunLease>),
    Quarantined,
}

impl Draft<'_> {
    pub(super) fn access(&self, run: RunId) -> Result<RunAccess, StoreError> {
        let lease: Option<RunLease> = self.read(Table::RunLeases, &rows::run(self.id, run))?;
        Ok(match lease {
            None => RunAccess::Free { tries: 0 },
            Some(lease) if self.now < lease.expires_at => RunAccess::Held,
            Some(lease) if lease.quarantined_at.is_some() && lease.cancel.is_none() => RunAccess::Quarantined,
            Some(lease) if lease.quarantined_at.is_none() && lease.tries < SUSPECT_FROM => {
                RunAccess::Free { tries: lease.tries }
            }
            Some(lease) => RunAccess::Suspect(Box::new(lease)),
        })
    }

    /// The lease under this fence. One that has expired, or is another instance's, cannot be revived.
    pub(super) fn held_lease(
        &self,
        (tenant, run): (&TenantId, RunId),
        fence: Fence,
    ) -> Result<RunLease, StoreError> {
        let key = rows::run(tenant, run);
        let head: Head = self.require(Table::Heads, &key, ("run", &run))?;
        let lease: Option<RunLease> = self.read(Table::RunLeases, &key)?;
        let current = lease.as_ref().map_or(head.fence, |lease| lease.fence);
        let in_force = lease.filter(|lease| lease.fence == fence && self.now < lease.expires_at);
        in_force.ok_or(StoreError::Fenced { held: fence, current })
    }

    /// The bytes of what the run was started with: most of what acquiring it answers.
    fn start_bytes(&self, run: RunId) -> Result<usize, StoreError> {
        Ok(self.view.get(Table::Starts, &rows::run(self.id, run))?.map_or(0, |start| start.len()))
    }

    /// Leases the run with its inbox to `holder`. None: there is no such run.
    pub(super) fn lease_run(
        &mut self,
        run: RunId,
        (holder, lease): (&InstanceId, Duration),
        tries: u32,
    ) -> Result<Option<AcquiredRun>, StoreError> {
        let (key, now) = (rows::run(self.id, run), self.now);
        let start: Option<Start> = self.read(Table::Starts, &key)?;
        let Some((start, head)) = start.zip(self.read(Table::Heads, &key)?) else { return Ok(None) };
        let (inbox, inbox_end) = self.inbox(run)?;
        let bounds = LimitedTenant::read(self.view, self.id)?.limits.bounds;
        let fence = self.mint_fence()?;
        let holder = holder.clone();
        let lease =
            RunLease { holder, fence, expires_at: now + lease, tries, quarantined_at: None, cancel: None };
        self.put(Table::RunLeases, key, &lease);
        Ok(Some(AcquiredRun { start, head, inbox, inbox_end, fence, now, bounds }))
    }
}

impl Look for ReadRunOwnership {
    fn look(&self, view: &dyn View, now: Timestamp) -> Result<RunOwnership, StoreError> {
        let key = rows::run(&self.tenant, self.run);
        let lease: Option<RunLease> = read(view, Table::RunLeases, &key)?;
        let (live, ended) = match lease {
            Some(lease) if now < lease.expires_at => (Some(lease), None),
            ended => (None, ended),
        };
        let quarantine = ended
            .as_ref()
            .and_then(|lease| Some(Quarantine { since: lease.quarantined_at?, tries: lease.tries }));
        Ok(RunOwnership {
            now,
            is_ready: view.get(Table::Ready, &key)?.is_some(),
            holder: live
                .map(|lease| RunHolder { instance: Some(lease.holder), until: Some(lease.expires_at) }),
            abandoned: ended.map_or(0, |lease| lease.tries),
            quarantine,
        })
    }
}

decide!(ExtendRunLease, |verb, draft| {
    let lease = draft.held_lease((&verb.tenant, verb.run), verb.fence)?;
    let row = RunLease { expires_at: draft.now + verb.lease, ..lease };
    draft.put(Table::RunLeases, rows::run(&verb.tenant, verb.run), &row);
    Ok(())
});

decide!(ReleaseRun, |verb, draft| {
    let key = rows::run(&verb.tenant, verb.run);
    let lease: Option<RunLease> = draft.read(Table::RunLeases, &key)?;
    // Another instance's lease is not the caller's to end; a run that was released before stays released.
    if let Some(lease) = lease.filter(|lease| lease.fence == verb.fence) {
        draft.release_lease(verb.run, lease);
    }
    Ok(())
});
