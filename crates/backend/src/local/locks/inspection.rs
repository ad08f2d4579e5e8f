//! Whether what is written down of locks agrees. The subject is the lock's resource.

use interlock_model::TenantId;
use interlock_model::lock::{LockEvent, LockName, Waiter};
use serde::de::DeserializeOwned;

use super::super::inspection::{Fault, Known, Look};
use super::super::rows;
use super::super::tables::{Changes, Table, read};
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

fn find(look: &Look<'_>, subject: &str) -> Result<Option<(LockName, Record)>, StoreError> {
    let Ok(resource) = subject.parse() else { return Ok(None) };
    let name = LockName::Of(look.tenant.clone(), resource);
    Ok(match look.read(Table::Locks, &Place::of(&name).row())? {
        Known::Is(record) => Some((name, record)),
        Known::Absent | Known::Unreadable => None,
    })
}

/// A hold that ran out, and that no verb has written down as ended since.
pub(in super::super) fn debt(look: &Look<'_>, subject: &str) -> Result<Option<Fault>, StoreError> {
    let Some((name, record)) = find(look, subject)? else { return Ok(None) };
    let late = record.holders.iter().find(|grant| grant.expires_at + look.grace <= look.now);
    let Some(grant) = late else { return Ok(None) };
    let detail =
        format!("the hold of {} ran out at {}, and nobody has ended it", grant.owner, grant.expires_at);
    let home = Place::of(&name).home().to_owned();
    let written = (|| {
        let tally = read(look.view, Table::LockTallies, &home)?.unwrap_or_default();
        let mut changes = Changes::default();
        // What has run out ends by loading the lock, and is written down by saving it.
        let tally = Lock::load(look.view, &name, look.now, tally)?.save(&mut changes);
        changes.put(Table::LockTallies, home, &tally);
        Ok(changes)
    })();
    match written {
        Ok(changes) => Ok(Some(Fault::new(detail, changes))),
        // It is told as damaged.
        Err(StoreError::Damaged { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(in super::super) fn drift(look: &Look<'_>) -> Result<Option<Fault>, StoreError> {
    let told = match look.read(Table::LockTallies, look.tenant.as_str())? {
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
    if told == counted || !is_readable {
        return Ok(None);
    }
    let mut changes = Changes::default();
    changes.put(Table::LockTallies, look.tenant.as_str(), &counted);
    let detail = format!(
        "{} held locks and {} waiters are written down, and there are {} and {}",
        told.held, told.waiting, counted.held, counted.waiting
    );
    Ok(Some(Fault::new(detail, changes)))
}

pub(in super::super) fn not_listed(look: &Look<'_>, subject: &str) -> Result<Option<Fault>, StoreError> {
    let Some((name, record)) = find(look, subject)? else { return Ok(None) };
    let listed = Place::of(&name).listed(record.since);
    if record.holders.is_empty() || look.is_there(Table::LockListing, &listed)? {
        return Ok(None);
    }
    let mut changes = Changes::default();
    changes.mark(Table::LockListing, listed);
    Ok(Some(Fault::new("the lock is held and in no list", changes)))
}
