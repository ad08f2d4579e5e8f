//! Inboxes: what a run must take into account waits here until whoever holds the run drains it.

use interlock_model::run::{InboxEvent, RunStatus};
use interlock_model::{RunId, TenantId};

use super::rows;
use super::tables::{Changes, Pick, Table, View, parse, read, scan_prefix};
use crate::StoreError;

/// Events that one turn takes at most; the rest waits for the next.
pub(super) const DRAIN_MAX: usize = 1_000;

/// Puts `events` behind what waits already and marks the run as ready.
pub(super) fn post(
    view: &dyn View,
    changes: &mut Changes,
    (tenant, run): (&TenantId, RunId),
    events: &[InboxEvent],
) -> Result<(), StoreError> {
    let last = scan_prefix(view, Table::Inbox, &rows::of_run(tenant, run), Pick::Last(1))?;
    let last = last.first().and_then(|row| rows::last_part(&row.key).parse::<u64>().ok()).unwrap_or(0);
    for (number, event) in (last + 1..).zip(events) {
        changes.put(Table::Inbox, rows::numbered(tenant, run, number), event);
    }
    changes.mark(Table::Ready, rows::run(tenant, run));
    Ok(())
}

/// What waits, in order, and the number of its last event.
pub(super) fn read_all(
    view: &dyn View,
    tenant: &TenantId,
    run: RunId,
) -> Result<(Vec<InboxEvent>, u64), StoreError> {
    let rows = scan_prefix(view, Table::Inbox, &rows::of_run(tenant, run), Pick::First(DRAIN_MAX))?;
    let end = rows.last().and_then(|row| rows::last_part(&row.key).parse().ok()).unwrap_or(0);
    let events = rows.iter().map(|row| parse(Table::Inbox, &row.key, &row.value));
    Ok((events.collect::<Result<_, _>>()?, end))
}

/// Where the run stands; none if there is no such run.
pub(super) fn status(
    view: &dyn View,
    tenant: &TenantId,
    run: RunId,
) -> Result<Option<RunStatus>, StoreError> {
    let head: Option<interlock_model::run::Head> = read(view, Table::Heads, &rows::run(tenant, run))?;
    Ok(head.map(|head| head.status))
}
