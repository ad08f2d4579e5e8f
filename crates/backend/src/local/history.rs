//! Timelines: the store gives each event its number.

use interlock_model::RunId;
use interlock_model::history::{Event, Recorded};

use super::draft::Draft;
use super::rows;
use super::store::look;
use super::tables::{Pick, Table, end_of, last_number, parse};
use crate::StoreError;
use crate::verbs::ReadTimeline;

impl Draft<'_> {
    pub(super) fn append_events(&mut self, run: RunId, events: &[Event]) -> Result<(), StoreError> {
        if events.is_empty() {
            return Ok(());
        }
        let next = self.next_event(run)?;
        for (number, event) in (next..).zip(events) {
            self.put(Table::Timeline, rows::numbered(self.id, run, number), event);
        }
        Ok(())
    }

    /// The number of the next event in the timeline of a run.
    pub(super) fn next_event(&self, run: RunId) -> Result<u64, StoreError> {
        Ok(last_number(self.view, Table::Timeline, &rows::of_run(self.id, run))? + 1)
    }
}

look!(ReadTimeline, |verb, view| {
    let (tenant, run) = (&verb.tenant, verb.run);
    if view.get(Table::Starts, &rows::run(tenant, run))?.is_none() {
        return Err(StoreError::not_found("run", run));
    }
    let from = rows::numbered(tenant, run, verb.after.saturating_add(1).min(9_999_999_999));
    let until = end_of(&rows::of_run(tenant, run));
    let rows = view.scan(Table::Timeline, &from, &until, Pick::First(verb.limit))?;
    rows.iter()
        .map(|row| {
            let sequence = rows::last_part(&row.key).parse().unwrap_or(0);
            Ok(Recorded { sequence, event: parse(Table::Timeline, &row.key, &row.value)? })
        })
        .collect()
});
