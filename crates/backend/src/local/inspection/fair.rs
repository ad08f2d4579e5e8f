//! Fair queues: their groups, and the runs that wait in these.

use std::collections::{BTreeMap, BTreeSet};

use interlock_model::RunId;
use interlock_model::limit::GroupKey;
use interlock_model::limit::fair::{FairGroup, FairQueue, LANE};
use interlock_model::limit::group::Group;
use interlock_model::limit::place::RunSlots;
use interlock_model::limit::rule::SlotClaim;

use super::super::draft::Draft;
use super::super::rows::{self, FairState};
use super::super::slots::QueueEntry;
use super::super::tables::{Pick, Row, Table, end_of, scan_prefix};
use super::{Checked, Inspection, Known};
use crate::StoreError;

/// What the rows of a fair queue must be.
#[derive(Debug, Default, PartialEq, Eq)]
struct FairRows {
    /// By the key of its place.
    entries: BTreeMap<String, QueueEntry>,
    groups: BTreeMap<GroupKey, FairGroup>,
    turns: BTreeSet<String>,
}

/// The subject is `limit/group`.
pub(super) fn drift(look: &Inspection<'_>, subject: &str) -> Checked {
    let Some(claim) = rows::claim_of_group(&format!("{}/{subject}", look.tenant)) else { return Ok(None) };
    let written: Known<Group> = look.read(Table::LimitGroups, &rows::group(look.tenant, &claim))?;
    let Known::Is(group) = written else { return Ok(None) };
    let Some(found) = found(look, &claim)? else { return Ok(None) };
    let Some(expected) = expected(look, &claim, (&group, &found))? else { return Ok(None) };
    let state = |state| expected.groups.values().filter(|group| FairState::of(group) == state).count();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let (waiting, remembered) = (count(state(FairState::Waits)), count(state(FairState::Remembered)));
    let counts = FairQueue { waiting, remembered, ..group.fair };
    if found == expected && group.fair == counts {
        return Ok(None);
    }
    look.try_fault("the groups of the fair queue are not those of the runs that wait in it", |draft| {
        draft.change_group(&claim, |group, _| group.fair = counts)?;
        write(draft, &claim, (&found, &expected));
        Ok(())
    })
}

fn all_rows(look: &Inspection<'_>, table: Table, claim: &SlotClaim) -> Result<Vec<Row>, StoreError> {
    scan_prefix(look.view, table, &rows::limit_slots(look.tenant, claim), Pick::First(usize::MAX))
}

/// None: a row cannot be read.
fn found(look: &Inspection<'_>, claim: &SlotClaim) -> Result<Option<FairRows>, StoreError> {
    let mut found = FairRows::default();
    for row in all_rows(look, Table::FairQueue, claim)? {
        let Ok(entry) = serde_json::from_str(&row.value) else { return Ok(None) };
        found.entries.insert(row.key, entry);
    }
    for row in all_rows(look, Table::FairGroups, claim)? {
        let group = GroupKey::unescape(rows::last_part(&row.key));
        let Some((group, known)) = group.zip(serde_json::from_str(&row.value).ok()) else { return Ok(None) };
        found.groups.insert(group, known);
    }
    found.turns = all_rows(look, Table::FairTurns, claim)?.into_iter().map(|row| row.key).collect();
    Ok(Some(found))
}

/// By the runs that wait. None: a row of them cannot be read.
fn expected(
    look: &Inspection<'_>,
    claim: &SlotClaim,
    (group, found): (&Group, &FairRows),
) -> Result<Option<FairRows>, StoreError> {
    let mut expected = FairRows::default();
    for (group, known) in &found.groups {
        expected.groups.insert(group.clone(), FairGroup { queued: 0, ..*known });
    }
    let (from, all) = (rows::queue_from(look.tenant, claim, LANE), rows::run_queue(look.tenant, claim));
    for row in look.view.scan(Table::RunQueue, &from, &end_of(&all), Pick::First(usize::MAX))? {
        let Ok(run) = rows::last_part(&row.key).parse::<RunId>() else { return Ok(None) };
        let slots: Known<RunSlots> = look.read(Table::RunSlots, &rows::run(look.tenant, run))?;
        let Known::Is(RunSlots { waiting: Some(waiting), .. }) = slots else { continue };
        let Ok(entry) = serde_json::from_str::<QueueEntry>(&row.value) else { return Ok(None) };
        let Some(fair) = waiting.fair.as_ref().filter(|_| waiting.claim() == *claim) else { continue };
        let new = FairGroup { charge: group.fair.virtual_time, turn: entry.place.arrival, queued: 0 };
        expected.groups.entry(fair.clone()).or_insert(new).queued += 1;
        expected.entries.insert(rows::fair_entry(look.tenant, &waiting, fair, run), entry);
    }
    for (fair, known) in &expected.groups {
        let turn = rows::fair_turn(look.tenant, claim, (FairState::of(known), known), fair);
        expected.turns.insert(turn);
    }
    Ok(Some(expected))
}

fn write(draft: &mut Draft<'_>, claim: &SlotClaim, (found, expected): (&FairRows, &FairRows)) {
    draft.delete_all(Table::FairTurns, found.turns.iter().cloned());
    draft.delete_all(Table::FairQueue, found.entries.keys().cloned());
    for turn in &expected.turns {
        draft.mark(Table::FairTurns, turn.clone());
    }
    for (key, entry) in &expected.entries {
        draft.put(Table::FairQueue, key.clone(), entry);
    }
    for (fair, known) in &expected.groups {
        draft.put(Table::FairGroups, rows::fair_group(draft.id, claim, fair), known);
    }
}
