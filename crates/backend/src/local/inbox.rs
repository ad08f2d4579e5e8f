//! Inboxes: what a run must take into account waits here until the run's holder drains it.

use interlock_model::run::{Head, InboxEvent, RunStatus};
use interlock_model::{RunId, TenantId};

use super::draft::Draft;
use super::rows;
use super::tables::{Pick, Table, View, last_number, parse, read, scan_prefix};
use crate::StoreError;

/// Events that one turn takes at most; the rest waits for the next.
pub(super) const DRAIN_MAX: usize = 1_000;

impl Draft<'_> {
    /// Puts `events` behind what waits already and marks the run as ready.
    pub(super) fn post(&mut self, run: RunId, events: &[InboxEvent]) -> Result<(), StoreError> {
        let last = match self.posted.get(&run) {
            Some(last) => *last,
            None => last_number(self.view, Table::Inbox, &rows::of_run(self.id, run))?,
        };
        for (number, event) in (last + 1..).zip(events) {
            self.put(Table::Inbox, rows::numbered(self.id, run, number), event);
        }
        self.posted.insert(run, last + events.len() as u64);
        self.mark(Table::Ready, rows::run(self.id, run));
        Ok(())
    }

    /// Removes what a turn took into account. Returns whether more has come since, or the turn `continues`.
    pub(super) fn drain(&mut self, run: RunId, end: u64, continues: bool) -> Result<bool, StoreError> {
        let mut has_more = continues;
        for row in scan_prefix(self.view, Table::Inbox, &rows::of_run(self.id, run), Pick::First(usize::MAX))?
        {
            if rows::last_part(&row.key).parse::<u64>().is_ok_and(|number| number <= end) {
                self.delete(Table::Inbox, row.key);
            } else {
                has_more = true;
            }
        }
        if continues {
            self.mark(Table::Ready, rows::run(self.id, run));
        } else if !has_more {
            self.delete(Table::Ready, rows::run(self.id, run));
        }
        Ok(has_more)
    }

    /// The number of the last event that waits.
    pub(super) fn inbox_end(&self, run: RunId) -> Result<u64, StoreError> {
        last_number(self.view, Table::Inbox, &rows::of_run(self.id, run))
    }

    /// What waits, in order, and the number of its last event.
    pub(super) fn inbox(&self, run: RunId) -> Result<(Vec<InboxEvent>, u64), StoreError> {
        let all = rows::of_run(self.id, run);
        let rows = scan_prefix(self.view, Table::Inbox, &all, Pick::First(DRAIN_MAX))?;
        let end = rows.last().and_then(|row| rows::last_part(&row.key).parse().ok()).unwrap_or(0);
        let events = rows.iter().map(|row| parse(Table::Inbox, &row.key, &row.value));
        Ok((events.collect::<Result<_, _>>()?, end))
    }
}

/// The status of the run; none if there is no such run.
pub(super) fn status(
    view: &dyn View,
    tenant: &TenantId,
    run: RunId,
) -> Result<Option<RunStatus>, StoreError> {
    let head: Option<Head> = read(view, Table::Heads, &rows::run(tenant, run))?;
    Ok(head.map(|head| head.status))
}
