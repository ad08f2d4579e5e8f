//! Invariants of locks. The subject is the lock's resource.

use interlock_model::TenantId;
use interlock_model::lock::LockName;

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
    let late = record.holders.iter().find(|grant| look.is_past_grace(grant.expires_at));
    let Some(grant) = late else { return Ok(None) };
    let detail = format!("the lease of {} expired at {} and was not ended", grant.owner, grant.expires_at);
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
    let mut counted = Tally { held: 0, waiting: look.count(Table::LockQueue)? };
    let mut is_readable = true;
    look.each(Table::Locks, |row| match serde_json::from_str::<Record>(&row.value) {
        Ok(record) => counted.held += u32::from(record.is_listed()),
        Err(_) => is_readable = false,
    })?;
    if written == counted || !is_readable {
        return Ok(None);
    }
    let detail = format!(
        "the tenant's row counts {} held locks and {} waiters, and there are {} and {}",
        written.held, written.waiting, counted.held, counted.waiting
    );
    look.fault(detail, |draft| draft.put(Table::LockTallies, look.tenant.as_str(), &counted))
}

pub(in super::super) fn not_listed(look: &Inspection<'_>, subject: &str) -> Checked {
    let Some((name, record)) = find(look, subject)? else { return Ok(None) };
    let listed = Place::of(&name).timed(record.since);
    if record.holders.is_empty() {
        return Ok(None);
    }
    look.missing(Table::LockListing, listed, "the lock is held and in no list".to_owned())
}
