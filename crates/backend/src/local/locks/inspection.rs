//! Invariants of locks. The subject is the lock's resource.

use interlock_model::TenantId;
use interlock_model::lock::{LockEvent, LockName, Waiter};
use serde::de::DeserializeOwned;

use super::super::inspection::{Checked, Inspection, Known};
use super::super::rows;
use super::super::tables::Table;
use super::place::Place;
use super::record::{Lock, Record, Tally};
use crate::StoreError;

/// The resource of the lock whose row has this key.
pub(in super::super) fn resource(tenant: &TenantId, key: &str) -> Option<String> {
    Place::lock(tenant, rows::last_part(key)).map(|name| name.resource().to_string())
}

/// Why a row of one of the tables of locks cannot be read.
pub(in super::super) fn unreadable(table: Table, value: &str) -> Option<String> {
    fn unlike<T: DeserializeOwned>(value: &str) -> Option<String> {
        serde_json::from_str::<T>(value).err().map(|error| error.to_string())
    }
    if table == Table::Locks {
        unlike::<Record>(value)
    } else if table == Table::LockLine {
        unlike::<Waiter>(value)
    } else if table == Table::LockTallies {
        unlike::<Tally>(value)
    } else {
        unlike::<LockEvent>(value)
    }
}

fn find(look: &Inspection<'_>, subject: &str) -> Result<Option<(LockName, Record)>, StoreError> {
    let Ok(resource) = subject.parse() else { return Ok(None) };
    let name = LockName::Of(look.tenant.clone(), resource);
    Ok(match look.read(Table::Locks, &Place::of(&name).row())? {
        Known::Is(record) => Some((name, record)),
        Known::Absent | Known::Unreadable => None,
    })
}

/// A lease that has expired, and that no verb has ended since.
pub(in super::super) fn debt(look: &Inspection<'_>, subject: &str) -> Checked {
    let Some((name, record)) = find(look, subject)? else { return Ok(None) };
    let late = record.holders.iter().find(|grant| grant.expires_at + look.grace <= look.now);
    let Some(grant) = late else { return Ok(None) };
    let detail =
        format!("the hold of {} ran out at {}, and nobody has ended it", grant.owner, grant.expires_at);
    let repaired = look.try_fault(detail, |draft| {
        let place = Place::of(&name);
        let tally = draft.read(Table::LockTallies, place.home())?.unwrap_or_default();
        // Loading the lock ends what has expired, and saving it writes that.
        let tally = Lock::load(look.view, &name, look.now, tally)?.save(&mut draft.changes);
        draft.put(Table::LockTallies, place.home(), &tally);
        Ok(())
    });
    match repaired {
        // It is reported as damaged.
        Err(StoreError::Damaged { .. }) => Ok(None),
        other => other,
    }
}

pub(in super::super) fn drift(look: &Inspection<'_>) -> Checked {
    let written = match look.read(Table::LockTallies, look.tenant.as_str())? {
        Known::Is(tally) => tally,
        Known::Absent => Tally::default(),
        Known::Unreadable => return Ok(None),
    };
    let mut counted = Tally { held: 0, waiting: look.count(Table::LockLine)? };
    let mut is_readable = true;
    look.each(Table::Locks, |row| match serde_json::from_str::<Record>(&row.value) {
        Ok(record) => counted.held += u32::from(record.is_listed()),
        Err(_) => is_readable = false,
    })?;
    if written == counted || !is_readable {
        return Ok(None);
    }
    let detail = format!(
        "{} held locks and {} waiters are written down, and there are {} and {}",
        written.held, written.waiting, counted.held, counted.waiting
    );
    look.fault(detail, |draft| draft.put(Table::LockTallies, look.tenant.as_str(), &counted))
}

pub(in super::super) fn not_listed(look: &Inspection<'_>, subject: &str) -> Checked {
    let Some((name, record)) = find(look, subject)? else { return Ok(None) };
    let listed = Place::of(&name).listed(record.since);
    if record.holders.is_empty() || look.is_there(Table::LockListing, &listed)? {
        return Ok(None);
    }
    look.fault("the lock is held and in no list", |draft| draft.mark(Table::LockListing, listed))
}
