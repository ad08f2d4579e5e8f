//! Reading locks. What has expired is shown as ended, though no verb has written that yet.

use interlock_model::Timestamp;
use interlock_model::lock::{LockEvent, LockName};

use super::super::rows;
use super::super::store::Look;
use super::super::tables::{Table, View, newest_page};
use super::place::Place;
use super::record::{Lock, Tally};
use crate::locks::{LINE_SHOWN_MAX, LockDetail, LockView};
use crate::verbs::{ListLockHistory, ListLocks, ReadLock};
use crate::{Page, StoreError};

impl Look for ReadLock {
    fn look(&self, view: &dyn View, now: Timestamp) -> Result<Option<LockDetail>, StoreError> {
        let lock = Lock::load(view, &self.lock, now, Tally::default())?;
        Ok(shown(&lock, &self.lock).map(|view| {
            let first = lock.queue.iter().take(LINE_SHOWN_MAX).map(|(_, waiter)| waiter.clone());
            LockDetail { view, line: first.collect() }
        }))
    }
}

fn shown(lock: &Lock<'_>, name: &LockName) -> Option<LockView> {
    if lock.record.holders.is_empty() {
        return None;
    }
    Some(LockView {
        resource: name.resource(),
        holders: lock.record.holders.clone(),
        waiting: u32::try_from(lock.queue.len()).unwrap_or(u32::MAX),
    })
}

impl Look for ListLocks {
    fn look(&self, view: &dyn View, now: Timestamp) -> Result<Page<LockView>, StoreError> {
        let (page, rows_max) = ((&self.tenant, &self.page), self.page.limit);
        newest_page(view, Table::LockListing, page, rows_max, |row| {
            let Some(name) = Place::lock(&self.tenant, rows::last_part(&row.key)) else { return Ok(None) };
            Ok(shown(&Lock::load(view, &name, now, Tally::default())?, &name))
        })
    }
}

impl Look for ListLockHistory {
    fn look(&self, view: &dyn View, now: Timestamp) -> Result<Page<LockEvent>, StoreError> {
        let page = &self.page;
        let lock = Lock::load(view, &self.lock, now, Tally::default())?;
        let until = page.after.as_ref().and_then(|after| after.parse().ok()).unwrap_or(u64::MAX);
        let mut events = lock.events(until, page.limit.saturating_add(1))?;
        let has_more = events.len() > page.limit;
        events.truncate(page.limit);
        let next = events.last().filter(|_| has_more).map(|(number, _)| number.to_string());
        Ok(Page { items: events.into_iter().map(|(_, event)| event).collect(), next })
    }
}
