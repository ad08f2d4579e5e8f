//! Events that are sent to keys: delivered to the runs that wait, or kept for the next.

use interlock_model::event::{
    EventTally, EventWaiter, KEPT_OF_KEY_MAX, KEYED_MAX, SPREAD_AT_ONCE_MAX, SentEvent, WaitEffects,
};
use interlock_model::fingerprint::Fingerprint;
use interlock_model::run::{Head, InboxEvent};
use interlock_model::step::StepRun;
use interlock_model::{EventId, RunId, StepKey, Timestamp};
use serde::{Deserialize, Serialize};

use super::draft::{Draft, decide};
use super::rows;
use super::tables::{Pick, Row, Table, end_of, parse, scan_prefix};
use crate::StoreError;
use crate::error::Quota;
use crate::events::{EventsSpread, KeyedEventOutcome};
use crate::verbs::{SendKeyedEvent, SpreadEvents};

/// An event that was sent to a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct KeyedEvent {
    fingerprint: Fingerprint,
    sent_at: Timestamp,
    forgotten_at: Timestamp,
    /// When it is delivered on, or forgotten.
    due_at: Timestamp,
    /// None: it was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open: Option<OpenEvent>,
}

/// An event that some run may still get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct OpenEvent {
    event: SentEvent,
    place: String,
    /// The last run that got it; none if it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<RunId>,
}

impl Draft<'_> {
    /// Posts an event to a run that waits for its key.
    fn post_event(&mut self, run: RunId, event: &SentEvent) -> Result<(), StoreError> {
        let of_run = rows::run(self.id, run);
        let head: Option<Head> = self.read(Table::Heads, &of_run)?;
        if head.is_none_or(|head| head.status.is_final()) {
            return Ok(());
        }
        let so_far: EventTally = self.read(Table::EventTallies, &of_run)?.unwrap_or_default();
        self.put(Table::EventTallies, of_run, &so_far.plus(event.tally()));
        self.post(run, &[InboxEvent::Event(Box::new(event.clone()))])
    }

    /// Delivers an event to some of the runs that wait at `place`, behind `after`. Returns to how many, and the last of them
    /// if there are more.
    fn spread(
        &mut self,
        (event, place): (&SentEvent, &str),
        after: Option<RunId>,
    ) -> Result<(u32, Option<RunId>), StoreError> {
        let all = rows::event_waiters(self.id, place);
        let (mut runs, mut last) = (0, after);
        loop {
            // '0' is the character after '/': the steps of one run get one event.
            let from = last.map_or_else(|| all.clone(), |run| format!("{all}{run}0"));
            let found = self.view.scan(Table::EventWaiters, &from, &end_of(&all), Pick::First(1))?;
            let Some(row) = found.first() else { return Ok((runs, None)) };
            if runs >= SPREAD_AT_ONCE_MAX {
                return Ok((runs, last));
            }
            let Some(run) = row.key[all.len()..].split('/').next().and_then(|run| run.parse().ok()) else {
                return Ok((runs, None));
            };
            self.post_event(run, event)?;
            (runs, last) = (runs + 1, Some(run));
        }
    }

    /// What a commit of `run` does about waits for keys. Returns whether something was kept for it.
    pub(super) fn settle_waits(&mut self, run: RunId, waits: &WaitEffects) -> Result<bool, StoreError> {
        for waiter in &waits.ended {
            self.delete(Table::EventWaiters, rows::event_waiter(self.id, run, waiter));
        }
        let mut events = Vec::new();
        for waiter in &waits.begun {
            self.mark(Table::EventWaiters, rows::event_waiter(self.id, run, waiter));
            for row in self.kept_at(&waiter.place())? {
                events.extend(self.take_kept(row)?);
            }
        }
        if events.is_empty() {
            return Ok(false);
        }
        let of_run = rows::run(self.id, run);
        let mut tally: EventTally = self.read(Table::EventTallies, &of_run)?.unwrap_or_default();
        for event in &events {
            tally = tally.plus(event.tally());
        }
        self.put(Table::EventTallies, of_run, &tally);
        let events: Vec<InboxEvent> =
            events.into_iter().map(|event| InboxEvent::Event(Box::new(event))).collect();
        self.post(run, &events)?;
        Ok(true)
    }

    /// The run is deleted: nothing of it waits.
    pub(super) fn end_waits(&mut self, run: RunId) -> Result<(), StoreError> {
        for row in scan_prefix(self.view, Table::Steps, &rows::of_run(self.id, run), Pick::First(usize::MAX))?
        {
            let Ok(StepRun { awaits: Some(awaits), .. }) = parse(Table::Steps, &row.key, &row.value) else {
                continue;
            };
            if let (Some(key), Ok(step)) = (awaits.key, rows::last_part(&row.key).parse::<StepKey>()) {
                let waiter = EventWaiter { step, name: awaits.name, key };
                self.delete(Table::EventWaiters, rows::event_waiter(self.id, run, &waiter));
            }
        }
        Ok(())
    }

    fn kept_at(&self, place: &str) -> Result<Vec<Row>, StoreError> {
        scan_prefix(
            self.view,
            Table::KeptEvents,
            &rows::event_waiters(self.id, place),
            Pick::First(usize::MAX),
        )
    }

    /// Takes a kept event for a run: it is remembered as delivered. A second step of the same commit finds it taken.
    fn take_kept(&mut self, row: Row) -> Result<Option<SentEvent>, StoreError> {
        let id: EventId = parse(Table::KeptEvents, &row.key, &row.value)?;
        if !self.taken_events.insert(row.key.clone()) {
            return Ok(None);
        }
        self.delete(Table::KeptEvents, row.key);
        let key = rows::keyed_event(self.id, &id);
        let Some(mut keyed) = self.read::<KeyedEvent>(Table::KeyedEvents, &key)? else { return Ok(None) };
        let Some(open) = keyed.open.take() else { return Ok(None) };
        self.put(Table::KeyedEvents, key, &keyed);
        self.uncount_bytes(&open.event)?;
        Ok(Some(open.event))
    }

    fn uncount_bytes(&mut self, event: &SentEvent) -> Result<(), StoreError> {
        let bytes = EventTally { count: 0, ..event.tally() };
        let keyed = &mut self.tenant()?.keyed_events;
        *keyed = keyed.minus(bytes);
        Ok(())
    }

    fn write_keyed(&mut self, id: &EventId, keyed: &KeyedEvent) {
        self.mark(Table::EventsDue, rows::timed(self.id, keyed.due_at, id));
        self.put(Table::KeyedEvents, rows::keyed_event(self.id, id), keyed);
    }

    /// Keeps an event for the next run that waits at `place`.
    fn keep_event(&mut self, event: &SentEvent, place: &str) -> Result<(), StoreError> {
        if self.kept_at(place)?.len() >= KEPT_OF_KEY_MAX as usize {
            return Err(StoreError::QuotaReached { quota: Quota::KeptEvents, most: KEPT_OF_KEY_MAX });
        }
        let bytes = EventTally { count: 0, ..event.tally() };
        let keyed = &mut self.tenant()?.keyed_events;
        if keyed.plus(bytes).bytes > KEYED_MAX.bytes {
            return Err(StoreError::QuotaReached { quota: Quota::KeyedEvents, most: KEYED_MAX.count });
        }
        *keyed = keyed.plus(bytes);
        let kept = rows::kept_event(self.id, place, self.now, &event.id);
        self.put(Table::KeptEvents, kept, &event.id);
        Ok(())
    }

    fn forget_keyed(&mut self, id: &EventId, keyed: &KeyedEvent) -> Result<(), StoreError> {
        self.delete(Table::KeyedEvents, rows::keyed_event(self.id, id));
        if let Some(open) = &keyed.open {
            self.delete(Table::KeptEvents, rows::kept_event(self.id, &open.place, keyed.sent_at, id));
            self.uncount_bytes(&open.event)?;
        }
        let count = EventTally { count: 1, bytes: 0 };
        let counted = &mut self.tenant()?.keyed_events;
        *counted = counted.minus(count);
        Ok(())
    }
}

decide!(SendKeyedEvent, |verb, draft| {
    let event = &verb.event;
    let (id, fingerprint, sent_at) = (&event.id, event.fingerprint(), draft.now);
    let key = rows::keyed_event(&verb.tenant, id);
    if let Some(before) = draft.read::<KeyedEvent>(Table::KeyedEvents, &key)? {
        let is_same = before.fingerprint == fingerprint;
        return Ok(if is_same { KeyedEventOutcome::AlreadySent } else { KeyedEventOutcome::IdReused });
    }
    if draft.tenant()?.keyed_events.count >= KEYED_MAX.count {
        return Err(StoreError::QuotaReached { quota: Quota::KeyedEvents, most: KEYED_MAX.count });
    }
    let place = event.place().ok_or_else(|| StoreError::Conflict("the event names no key".to_owned()))?;
    let (runs, after) = draft.spread((event, &place), None)?;
    if runs == 0 {
        draft.keep_event(event, &place)?;
    }
    let is_open = runs == 0 || after.is_some();
    let open = is_open.then(|| OpenEvent { event: event.clone(), place, after });
    let forgotten_at = sent_at + verb.kept_for;
    let due_at = if after.is_some() { sent_at } else { forgotten_at };
    draft.write_keyed(id, &KeyedEvent { fingerprint, sent_at, forgotten_at, due_at, open });
    draft.tenant()?.keyed_events.count += 1;
    Ok(if runs == 0 {
        KeyedEventOutcome::Kept
    } else {
        KeyedEventOutcome::Delivered { runs, has_more: after.is_some() }
    })
});

decide!(SpreadEvents, |verb, draft| {
    let mut done = EventsSpread::default();
    let due = draft.due(Table::EventsDue, draft.now, verb.limit.saturating_add(1))?;
    done.has_more = due.len() > verb.limit;
    for row in due.into_iter().take(verb.limit) {
        // An id may have any character: it is what follows the time.
        let id = row.key.splitn(3, '/').nth(2).and_then(|id| id.parse::<EventId>().ok());
        draft.delete(Table::EventsDue, row.key.clone());
        let Some(id) = id else { continue };
        let key = rows::keyed_event(&verb.tenant, &id);
        let Some(keyed) = draft.read::<KeyedEvent>(Table::KeyedEvents, &key)? else { continue };
        let Some(OpenEvent { event, place, after: Some(after) }) = keyed.open.clone() else {
            draft.forget_keyed(&id, &keyed)?;
            done.forgotten += 1;
            continue;
        };
        let (runs, after) = draft.spread((&event, &place), Some(after))?;
        done.runs += runs;
        done.has_more |= after.is_some();
        let due_at = if after.is_some() { draft.now } else { keyed.forgotten_at };
        let open = after.map(|after| OpenEvent { event, place, after: Some(after) });
        draft.write_keyed(&id, &KeyedEvent { due_at, open, ..keyed });
        // One that is spread is enough for one step.
        done.has_more |= runs > 0;
        if runs > 0 {
            break;
        }
    }
    Ok(done)
});
