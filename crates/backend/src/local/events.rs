//! Events that are sent to runs: each is posted once.

use interlock_model::event::{EventTally, RUN_EVENTS_MAX, UNTAKEN_MAX};
use interlock_model::fingerprint::Fingerprint;
use interlock_model::run::{Head, InboxEvent};

use super::draft::decide;
use super::rows;
use super::tables::Table;
use crate::StoreError;
use crate::error::Quota;
use crate::events::EventOutcome;
use crate::verbs::SendEvent;

decide!(SendEvent, |verb, draft| {
    let (run, event) = (verb.run, &verb.event);
    let of_run = rows::run(&verb.tenant, run);
    let head: Head = draft.require(Table::Heads, &of_run, ("run", &run))?;
    let key = rows::run_event(&verb.tenant, run, &event.id);
    let fingerprint = event.fingerprint();
    if let Some(before) = draft.read::<Fingerprint>(Table::RunEvents, &key)? {
        let is_same = before == fingerprint;
        return Ok(if is_same { EventOutcome::AlreadySent } else { EventOutcome::IdReused });
    }
    if head.status.is_final() {
        return Ok(EventOutcome::RunEnded);
    }
    let so_far: EventTally = draft.read(Table::EventTallies, &of_run)?.unwrap_or_default();
    if so_far.count >= RUN_EVENTS_MAX {
        return Err(StoreError::QuotaReached { quota: Quota::RunEvents, most: RUN_EVENTS_MAX });
    }
    if !so_far.has_room(head.used_events, event.tally()) {
        return Err(StoreError::QuotaReached { quota: Quota::UntakenEvents, most: UNTAKEN_MAX.count });
    }
    draft.put(Table::RunEvents, key, &fingerprint);
    draft.put(Table::EventTallies, of_run, &so_far.plus(event.tally()));
    draft.post(run, &[InboxEvent::Event(Box::new(event.clone()))])?;
    Ok(EventOutcome::Sent)
});
