//! Timelines: the store gives each event its place.

use interlock_model::history::{Event, Recorded};
use interlock_model::{RunId, TenantId};

use super::rows;
use super::tables::{Changes, Pick, Table, View, parse, scan_prefix};
use crate::StoreError;

pub(super) fn append(
    view: &dyn View,
    changes: &mut Changes,
    (tenant, run): (&TenantId, RunId),
    events: Vec<Event>,
) -> Result<(), StoreError> {
    if events.is_empty() {
        return Ok(());
    }
    let last = scan_prefix(view, Table::Timeline, &rows::of_run(tenant, run), Pick::Last(1))?;
    let last = last.first().and_then(|row| rows::last_part(&row.key).parse::<u64>().ok()).unwrap_or(0);
    for (number, event) in (last + 1..).zip(events) {
        changes.put(Table::Timeline, rows::numbered(tenant, run, number), &event);
    }
    Ok(())
}

pub(super) fn timeline(
    view: &dyn View,
    (tenant, run): (&TenantId, RunId),
    after: u64,
    limit: usize,
) -> Result<Vec<Recorded>, StoreError> {
    if view.get(Table::Starts, &rows::run(tenant, run))?.is_none() {
        return Err(StoreError::not_found("run", run));
    }
    let from = rows::numbered(tenant, run, after.saturating_add(1).min(9_999_999_999));
    let until = super::tables::end_of(&rows::of_run(tenant, run));
    let rows = view.scan(Table::Timeline, &from, &until, Pick::First(limit))?;
    rows.iter()
        .map(|row| {
            let sequence = rows::last_part(&row.key).parse().unwrap_or(0);
            Ok(Recorded { sequence, event: parse(Table::Timeline, &row.key, &row.value)? })
        })
        .collect()
}
