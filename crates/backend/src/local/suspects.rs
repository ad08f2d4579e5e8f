//! Suspects: acquired one at a time, or quarantined; and how a quarantine ends.

use interlock_model::run::{InboxEvent, Quarantine, SUSPECT_FROM};
use interlock_model::{Fence, RunId};

use super::draft::{Draft, decide};
use super::rows::{self, RunLease};
use super::run_leases::{LOOKED_AT_MAX, RunAccess};
use super::tables::{Pick, Table};
use crate::StoreError;
use crate::suspects::{Suspect, SuspectOutcome};
use crate::verbs::{AcquireSuspect, BeginTry};

decide!(AcquireSuspect, |verb, draft| {
    for row in draft.scan_tenant(Table::Ready, Pick::First(LOOKED_AT_MAX))? {
        let Ok(run) = rows::last_part(&row.key).parse::<RunId>() else { continue };
        let RunAccess::Suspect(lease) = draft.access(run)? else { continue };
        let (tries, for_instance) = (lease.tries, (&verb.holder, verb.lease));
        if tries >= verb.tries_max && lease.cancel.is_none() {
            draft.quarantine(run, *lease, verb.dead_letters_max)?;
            return Ok(SuspectOutcome::Quarantined(run));
        }
        let Some(mut acquired) = draft.lease_run(run, for_instance, tries)? else { continue };
        if let Some(cancel) = lease.cancel.clone() {
            let (fence, expires_at) = (acquired.fence, draft.now + verb.lease);
            let row = RunLease { fence, expires_at, holder: verb.holder.clone(), ..*lease };
            draft.put(Table::RunLeases, rows::run(&verb.tenant, run), &row);
            acquired.inbox_end = draft.inbox_end(run)?;
            acquired.inbox = vec![cancel];
        }
        return Ok(SuspectOutcome::Acquired(Box::new(Suspect { run: acquired, tries })));
    }
    Ok(SuspectOutcome::Nothing)
});

decide!(BeginTry, |verb, draft| {
    let lease = draft.held_lease((&verb.tenant, verb.run), verb.fence)?;
    let expires_at = draft.now + verb.lease;
    let row = RunLease { expires_at, tries: verb.number, cancel: None, ..lease };
    draft.put(Table::RunLeases, rows::run(&verb.tenant, verb.run), &row);
    Ok(())
});

impl Draft<'_> {
    fn quarantine(&mut self, run: RunId, lease: RunLease, letters_max: u32) -> Result<(), StoreError> {
        let (key, now) = (rows::run(self.id, run), self.now);
        let quarantine = Quarantine { since: now, tries: lease.tries };
        let row = RunLease { fence: Fence::NONE, quarantined_at: Some(now), cancel: None, ..lease };
        self.put(Table::RunLeases, key.clone(), &row);
        // Whatever comes for it waits in its inbox.
        self.delete(Table::Ready, key);
        self.add_dead_letters(&[quarantine.letter(run)], letters_max)
    }

    /// Asks for the end of a quarantined run. Whether it is one.
    pub(super) fn cancel_quarantined(&mut self, run: RunId, cancel: &InboxEvent) -> Result<bool, StoreError> {
        let key = rows::run(self.id, run);
        let lease: Option<RunLease> = self.read(Table::RunLeases, &key)?;
        let Some(lease) = lease.filter(|lease| lease.quarantined_at.is_some()) else { return Ok(false) };
        // An instance that holds it is cancelling it right now.
        if self.now >= lease.expires_at {
            let lease = RunLease { fence: Fence::NONE, cancel: Some(cancel.clone()), ..lease };
            self.put(Table::RunLeases, key.clone(), &lease);
            self.mark(Table::Ready, key);
        }
        Ok(true)
    }

    /// Lets a quarantined run be tried again, alone. Whether it is one.
    pub(super) fn lift_quarantine(&mut self, run: RunId) -> Result<bool, StoreError> {
        let key = rows::run(self.id, run);
        let lease: Option<RunLease> = self.read(Table::RunLeases, &key)?;
        let Some(lease) = lease.filter(|lease| lease.quarantined_at.is_some()) else { return Ok(false) };
        let lease = RunLease {
            fence: Fence::NONE,
            expires_at: self.now,
            tries: SUSPECT_FROM,
            quarantined_at: None,
            cancel: None,
            ..lease
        };
        self.put(Table::RunLeases, key.clone(), &lease);
        self.mark(Table::Ready, key);
        self.remove_dead_letter(&rows::job(self.id, &Quarantine::letter_id(run)))?;
        Ok(true)
    }

    /// The holder of the run has released it. A request to cancel a quarantined run is still to be met.
    pub(super) fn release_lease(&mut self, run: RunId, lease: RunLease) {
        let key = rows::run(self.id, run);
        if lease.quarantined_at.is_none() {
            return self.delete(Table::RunLeases, key);
        }
        let lease = RunLease { fence: Fence::NONE, expires_at: self.now, ..lease };
        self.put(Table::RunLeases, key, &lease);
    }

    /// The holder of the run has committed a turn of it.
    pub(super) fn end_lease(&mut self, run: RunId, lease: &RunLease) -> Result<(), StoreError> {
        self.delete(Table::RunLeases, rows::run(self.id, run));
        if lease.quarantined_at.is_some() {
            self.remove_dead_letter(&rows::job(self.id, &Quarantine::letter_id(run)))?;
        }
        Ok(())
    }
}
