//! Starts that a run takes in which waits for newer ones.

use interlock_model::admission::{StartOutcome, StartPlan};
use interlock_model::limit::group::{DebounceRule, Fullness};
use interlock_model::limit::place::{Debounced, QueuedRun, RunSlots};
use interlock_model::limit::rule::SlotClaim;
use interlock_model::run::Head;
use interlock_model::{RunId, Timestamp};

use super::admission::{slots_of, write_key};
use super::draft::Draft;
use super::rows;
use super::slots::{self, LimitedTenant};
use super::store::Look;
use super::tables::{Pick, Table, View, scan_prefix};
use crate::StoreError;
use crate::verbs::{Admit, ReadDebouncedRun};

/// The run becomes what the newest start asks for, in all but its id and when it was created.
pub(super) fn take_in(
    draft: &mut Draft<'_>,
    (admit, plan): (&Admit, &StartPlan),
    (run, before): (RunId, Debounced),
    rule: DebounceRule,
) -> Result<StartOutcome, StoreError> {
    let start = &*admit.request;
    let limited = LimitedTenant::read(draft.view, &start.tenant)?;
    let (claim, usage) = (before.claim(), limited.usage());
    // The answer to it was lost: it was taken in, or a newer one came before it.
    let is_known = admit.is_repeat && before.newest.is_some_and(|newest| start.run <= newest);
    if is_known && start.intent.is_none() {
        let blocked = draft.blocked(&claim, Fullness::Quiet(before.quiet))?;
        return Ok(StartOutcome::Queued { run, position: None, blocked, usage });
    }
    if start.intent.is_some() {
        if !draft.count_joined_key(run)? {
            let blocked = draft.blocked(&claim, Fullness::Quiet(before.quiet))?;
            return Ok(StartOutcome::QueueFull { blocked, usage });
        }
        write_key(draft, start, run, &limited.limits);
    }
    let quiet = rule.after_start(before.first_at, draft.now, before.quiet.starts.saturating_add(1));
    let until = quiet.until + draft.group(&claim)?.rule.queue.wait_max;
    draft.replace_start(admit, plan, (run, before.first_at))?;
    draft.replace_queued_head(run, until)?;
    let place = draft.next_place(start.priority)?;
    let RunSlots { claims, fair, .. } = slots_of(plan);
    let slots = draft.run_slots(run)?.unwrap_or_default();
    draft.put_run_slots(run, &RunSlots { claims, fair, ..slots });
    draft.debounce(run, Debounced { place, quiet, newest: Some(start.run), ..before })?;
    let blocked = draft.blocked(&claim, Fullness::Quiet(quiet))?;
    Ok(StartOutcome::Queued { run, position: None, blocked, usage })
}

impl Draft<'_> {
    /// Writes what a newer start asks for in place of what the run had, with the steps that it copies.
    fn replace_start(
        &mut self,
        admit: &Admit,
        plan: &StartPlan,
        (run, created_at): (RunId, Timestamp),
    ) -> Result<(), StoreError> {
        let mut start = admit.request.start(plan.workflow_version, created_at);
        start.run = run;
        self.put(Table::Starts, rows::run(self.id, run), &start);
        let before =
            scan_prefix(self.view, Table::Steps, &rows::of_run(self.id, run), Pick::First(usize::MAX))?;
        self.delete_all(Table::Steps, before.into_iter().map(|row| row.key));
        for (key, step) in &plan.copied_steps {
            self.put(Table::Steps, rows::step(self.id, run, key), step);
        }
        Ok(())
    }

    /// A queued run that no turn has touched waits until then.
    fn replace_queued_head(&mut self, run: RunId, until: Timestamp) -> Result<(), StoreError> {
        let key = rows::run(self.id, run);
        let before: Head = self.require(Table::Heads, &key, ("run", &run))?;
        if let Some(at) = before.due_at {
            self.delete(Table::Timers, rows::timed(self.id, at, &run));
        }
        self.put(Table::Heads, key, &Head::queued(self.now, until));
        self.mark(Table::Timers, rows::timed(self.id, until, &run));
        Ok(())
    }
}

impl Look for ReadDebouncedRun {
    fn look(&self, view: &dyn View, now: Timestamp) -> Result<Option<QueuedRun>, StoreError> {
        let draft = Draft::new(view, now, &self.tenant);
        let claim = SlotClaim { limit: self.name.clone(), group: self.group.clone() };
        let found = draft.run_to_debounce(&claim, &self.workflow)?;
        Ok(found.map(|(run, debounced)| slots::debounced_run(run, &debounced)))
    }
}
