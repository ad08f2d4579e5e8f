//! One lock as it is kept, in memory for the length of one decision: what is done to it becomes rows at the end.

use interlock_model::lock::{Grant, HISTORY_KEPT, HISTORY_MAX, LockEnd, LockEvent, LockName, Waiter};
use interlock_model::{Fence, LockRequest, LockToken, Timestamp};
use serde::{Deserialize, Serialize};

use super::super::tables::{Changes, Pick, Table, View, parse, read, scan_prefix};
use super::super::{rows, slots, tenants};
use super::place::Place;
use crate::StoreError;

/// The row of a lock. It stays as long as the lock's history does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct Record {
    /// By when they came.
    pub(super) holders: Vec<Grant>,
    /// Since when it is held without a break.
    pub(super) since: Timestamp,
    /// The last fence that it was granted under.
    pub(super) fence: Fence,
    /// The last place in the queue that was given out.
    ticket: u64,
    /// The number of events so far, the forgotten ones included.
    events: u64,
    /// Where the sweep finds it, and the list of held locks.
    sweep_at: Timestamp,
    listed_at: Option<Timestamp>,
}

impl Record {
    /// Whether it was held when it was last written, and counts as that.
    pub(super) fn is_listed(&self) -> bool {
        self.listed_at.is_some()
    }
}

/// What a home has of locks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Tally {
    pub(super) held: u32,
    pub(super) waiting: u32,
}

pub(super) struct Lock<'a> {
    view: &'a dyn View,
    pub(super) now: Timestamp,
    place: Place,
    pub(super) name: LockName,
    /// None before its first event.
    before: Option<Record>,
    pub(super) record: Record,
    /// With their places in the queue.
    pub(super) queue: Vec<(u64, Waiter)>,
    queue_before: Vec<(u64, Waiter)>,
    new_events: Vec<LockEvent>,
    /// What its home has beside it.
    pub(super) others: Tally,
}

impl<'a> Lock<'a> {
    /// The lock as it is at `now`: without expired leases and offline waiters. `all` is what its home has, with what
    /// this lock had when it was last written.
    pub(super) fn load(
        view: &'a dyn View,
        name: &LockName,
        now: Timestamp,
        all: Tally,
    ) -> Result<Self, StoreError> {
        let place = Place::of(name);
        let before: Option<Record> = read(view, Table::Locks, &place.row())?;
        let mut queue = Vec::new();
        if before.is_some() {
            for row in scan_prefix(view, Table::LockQueue, &place.prefix(), Pick::First(usize::MAX))? {
                let ticket = rows::last_part(&row.key).parse().unwrap_or(0);
                queue.push((ticket, parse(Table::LockQueue, &row.key, &row.value)?));
            }
        }
        let record = before.clone().unwrap_or(Record {
            holders: Vec::new(),
            since: now,
            fence: Fence::NONE,
            ticket: 0,
            events: 0,
            sweep_at: now,
            listed_at: None,
        });
        let was_held = before.as_ref().is_some_and(Record::is_listed);
        let others = Tally {
            held: all.held.saturating_sub(u32::from(was_held)),
            waiting: all.waiting.saturating_sub(count(&queue)),
        };
        let name = name.clone();
        let queue_before = queue.clone();
        let new_events = Vec::new();
        let mut lock =
            Self { view, now, place, name, before, record, queue, queue_before, new_events, others };
        lock.purge();
        Ok(lock)
    }

    /// Whether it was ever used, as far as is remembered.
    pub(super) fn is_known(&self) -> bool {
        self.before.is_some()
    }

    fn purge(&mut self) {
        let now = self.now;
        let (live, mut expired): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.record.holders).into_iter().partition(|grant| grant.is_live(now));
        self.record.holders = live;
        expired.sort_by_key(|grant| (grant.expires_at, grant.fence));
        for grant in expired {
            self.new_events.push(LockEvent::ended(&grant, LockEnd::Expired, now));
        }
        self.queue.retain(|(_, waiter)| now < waiter.alive_until);
    }

    /// Mints the fence in the same step as the grant.
    pub(super) fn grant(&mut self, changes: &mut Changes, grant: Grant) -> Result<Grant, StoreError> {
        let fence = match &self.name {
            LockName::Of(id, _) | LockName::Admission(id) => {
                let mut tenant = slots::tenant(self.view, id)?;
                let fence = tenant.mint_fence(self.now);
                tenants::register(self.view, changes, id)?;
                changes.put(Table::Tenants, id.as_str(), &tenant);
                fence
            }
            LockName::Stage(_) => self.record.fence.next(self.now),
        };
        let grant = Grant { fence, ..grant };
        if self.record.holders.is_empty() {
            self.record.since = self.now;
        }
        self.record.fence = fence;
        self.record.holders.push(grant.clone());
        self.leave(&grant.request);
        self.new_events.push(LockEvent::granted(&grant));
        Ok(grant)
    }

    pub(super) fn end(&mut self, token: &LockToken, end: LockEnd) {
        if let Some(held) = self.record.holders.iter().position(|grant| grant.token == *token) {
            let grant = self.record.holders.remove(held);
            self.new_events.push(LockEvent::ended(&grant, end, self.now));
        }
    }

    /// Puts the waiter at the end of the queue.
    pub(super) fn enter(&mut self, waiter: Waiter) {
        self.record.ticket += 1;
        self.queue.push((self.record.ticket, waiter));
    }

    pub(super) fn leave(&mut self, request: &LockRequest) {
        self.queue.retain(|(_, waiter)| waiter.request != *request);
    }

    /// One call no longer waits for its request. The place is free when no other call does.
    pub(super) fn leave_by(&mut self, request: &LockRequest, call: &LockToken) {
        self.queue.retain_mut(|(_, waiter)| waiter.request != *request || !waiter.is_left_by(call));
    }

    /// How the lease under this token ended, as far as is remembered.
    pub(super) fn ended(&self, token: &LockToken) -> Result<Option<LockEvent>, StoreError> {
        let mut events = self.events(u64::MAX, usize::MAX)?.into_iter().map(|(_, event)| event);
        Ok(events.find(|event| event.token == *token && event.end.is_some()))
    }

    /// Every event that is kept, the newest first, with its number; leases that have just expired included.
    pub(super) fn events(&self, until: u64, limit: usize) -> Result<Vec<(u64, LockEvent)>, StoreError> {
        let numbered = (self.record.events + 1..).zip(self.new_events.iter().cloned());
        let mut events: Vec<_> = numbered.filter(|(number, _)| *number < until).collect();
        events.reverse();
        let rows = self.view.scan(
            Table::LockHistory,
            &self.place.prefix(),
            &self.place.numbered(until.min(self.record.events + 1)),
            Pick::Last(limit),
        )?;
        for row in rows {
            let number = rows::last_part(&row.key).parse().unwrap_or(0);
            events.push((number, parse(Table::LockHistory, &row.key, &row.value)?));
        }
        events.truncate(limit);
        Ok(events)
    }

    /// Writes what has changed. Returns what its home has then.
    pub(super) fn save(mut self, changes: &mut Changes) -> Tally {
        self.save_queue(changes);
        self.save_events(changes);
        if self.before.is_none() && self.record.events == 0 && self.queue.is_empty() {
            return self.others;
        }
        self.save_indexes(changes);
        changes.put(Table::Locks, self.place.row(), &self.record);
        Tally {
            held: self.others.held + u32::from(self.record.listed_at.is_some()),
            waiting: self.all_waiting(),
        }
    }

    /// The waiters in all queues of its home.
    pub(super) fn all_waiting(&self) -> u32 {
        self.others.waiting.saturating_add(count(&self.queue))
    }

    fn save_queue(&self, changes: &mut Changes) {
        for (ticket, _) in &self.queue_before {
            if find(&self.queue, *ticket).is_none() {
                changes.delete(Table::LockQueue, self.place.numbered(*ticket));
            }
        }
        for entry in &self.queue {
            if find(&self.queue_before, entry.0) != Some(&entry.1) {
                changes.put(Table::LockQueue, self.place.numbered(entry.0), &entry.1);
            }
        }
    }

    fn save_events(&mut self, changes: &mut Changes) {
        for event in std::mem::take(&mut self.new_events) {
            self.record.events += 1;
            changes.put(Table::LockHistory, self.place.numbered(self.record.events), &event);
            if let Some(forgotten) = self.record.events.checked_sub(HISTORY_MAX as u64) {
                changes.delete(Table::LockHistory, self.place.numbered(forgotten));
            }
        }
    }

    fn save_indexes(&mut self, changes: &mut Changes) {
        let listed_at = (!self.record.holders.is_empty()).then_some(self.record.since);
        let was_listed_at = self.before.as_ref().and_then(|before| before.listed_at);
        if let Some(at) = was_listed_at.filter(|at| Some(*at) != listed_at) {
            changes.delete(Table::LockListing, self.place.timed(at));
        }
        if let Some(at) = listed_at {
            changes.mark(Table::LockListing, self.place.timed(at));
        }
        self.record.listed_at = listed_at;

        let expiries = self.record.holders.iter().map(|grant| grant.expires_at);
        let silences = self.queue.iter().map(|(_, waiter)| waiter.alive_until);
        let sweep_at = expiries.chain(silences).max().unwrap_or(self.now + HISTORY_KEPT);
        if let Some(before) = &self.before
            && before.sweep_at != sweep_at
        {
            changes.delete(Table::LockSweeps, self.place.timed(before.sweep_at));
        }
        changes.mark(Table::LockSweeps, self.place.timed(sweep_at));
        self.record.sweep_at = sweep_at;
    }

    /// Whether it has no leases and no waiters.
    pub(super) fn is_at_rest(&self) -> bool {
        self.record.holders.is_empty() && self.queue.is_empty()
    }

    /// Removes a lock that has not been used for long.
    pub(super) fn forget(self, changes: &mut Changes) -> Result<(), StoreError> {
        changes.delete(Table::Locks, self.place.row());
        changes.delete(Table::LockSweeps, self.place.timed(self.record.sweep_at));
        for row in scan_prefix(self.view, Table::LockHistory, &self.place.prefix(), Pick::First(usize::MAX))?
        {
            changes.delete(Table::LockHistory, row.key);
        }
        Ok(())
    }

    /// Whether everything that was alive has just been ended by the load.
    pub(super) fn has_changed(&self) -> bool {
        !self.new_events.is_empty() || self.queue.len() != self.queue_before.len()
    }
}

/// The waiter at a place. A queue is in the order of its places.
fn find(queue: &[(u64, Waiter)], ticket: u64) -> Option<&Waiter> {
    queue.binary_search_by_key(&ticket, |(place, _)| *place).ok().map(|index| &queue[index].1)
}

fn count(queue: &[(u64, Waiter)]) -> u32 {
    u32::try_from(queue.len()).unwrap_or(u32::MAX)
}
