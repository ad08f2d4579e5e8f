//! Looking at locks. What has run out is shown as ended, though nobody has written it down yet.

use interlock_model::lock::{LockEvent, LockName};
use interlock_model::{TenantId, Timestamp};

use super::super::rows;
use super::super::runs::page_end;
use super::super::tables::{Pick, Table, View};
use super::place::Place;
use super::record::{Lock, Tally};
use crate::locks::{LINE_SHOWN_MAX, LockDetail, LockView};
use crate::{Page, PageRequest, StoreError};

pub(super) fn lock(
    view: &dyn View,
    now: Timestamp,
    name: &LockName,
) -> Result<Option<LockDetail>, StoreError> {
    let lock = Lock::load(view, name, now, Tally::default())?;
    Ok(shown(&lock, name).map(|view| {
        let line = lock.line.iter().take(LINE_SHOWN_MAX).map(|(_, waiter)| waiter.clone());
        LockDetail { view, line: line.collect() }
    }))
}

fn shown(lock: &Lock<'_>, name: &LockName) -> Option<LockView> {
    if lock.record.holders.is_empty() {
        return None;
    }
    Some(LockView {
        resource: name.resource(),
        holders: lock.record.holders.clone(),
        waiting: u32::try_from(lock.line.len()).unwrap_or(u32::MAX),
    })
}

pub(super) fn locks(
    view: &dyn View,
    now: Timestamp,
    tenant: &TenantId,
    page: &PageRequest,
) -> Result<Page<LockView>, StoreError> {
    let until = page_end(tenant, page);
    let limit = page.limit.saturating_add(1);
    let mut found = view.scan(Table::LockListing, &rows::of_tenant(tenant), &until, Pick::Last(limit))?;
    let has_more = found.len() > page.limit;
    found.truncate(page.limit);
    let next = found.last().filter(|_| has_more).and_then(|row| rows::after_tenant(&row.key));
    let next = next.map(str::to_owned);
    let mut items = Vec::with_capacity(found.len());
    for row in &found {
        let Some(name) = Place::lock(tenant, rows::last_part(&row.key)) else { continue };
        items.extend(shown(&Lock::load(view, &name, now, Tally::default())?, &name));
    }
    Ok(Page { items, next })
}

pub(super) fn history(
    view: &dyn View,
    now: Timestamp,
    name: &LockName,
    page: &PageRequest,
) -> Result<Page<LockEvent>, StoreError> {
    let lock = Lock::load(view, name, now, Tally::default())?;
    let until = page.after.as_ref().and_then(|after| after.parse().ok()).unwrap_or(u64::MAX);
    let mut events = lock.events(until, page.limit.saturating_add(1))?;
    let has_more = events.len() > page.limit;
    events.truncate(page.limit);
    let next = events.last().filter(|_| has_more).map(|(number, _)| number.to_string());
    Ok(Page { items: events.into_iter().map(|(_, event)| event).collect(), next })
}
