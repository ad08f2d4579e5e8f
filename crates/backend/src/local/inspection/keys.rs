//! Idempotency keys and their runs. The subject is the workflow and the key.

use interlock_model::RunId;
use interlock_model::admission::KeyRecord;

use super::super::rows;
use super::super::tables::Table;
use super::{Checked, Inspection, Known};
use crate::StoreError;
use crate::inspection::KEYS_JUDGED_FOR;

fn record(look: &Inspection<'_>, subject: &str) -> Result<Option<(String, KeyRecord)>, StoreError> {
    let key = format!("{}{subject}", rows::of_tenant(look.tenant));
    Ok(match look.read(Table::IdempotencyKeys, &key)? {
        Known::Is(record) => Some((key, record)),
        Known::Absent | Known::Unreadable => None,
    })
}

fn free(look: &Inspection<'_>, key: String, detail: String) -> Checked {
    look.fault(detail, |draft| draft.delete(Table::IdempotencyKeys, key))
}

pub(super) fn without_run(look: &Inspection<'_>, subject: &str) -> Checked {
    let Some((key, record)) = record(look, subject)? else { return Ok(None) };
    if record.reservation.is_some() || !record.is_live(look.now) {
        return Ok(None);
    }
    // The ids of runs begin with when they were made.
    if record.run < RunId::new(look.now - KEYS_JUDGED_FOR, [0; 10]) {
        return Ok(None);
    }
    let run = rows::run(look.tenant, record.run);
    for table in [Table::Starts, Table::Heads, Table::DeletedRuns] {
        if look.has(table, &run)? {
            return Ok(None);
        }
    }
    let detail = format!("the key names run {}, which does not exist and was not deleted", record.run);
    free(look, key, detail)
}

pub(super) fn left_behind(look: &Inspection<'_>, subject: &str) -> Checked {
    let Some((key, record)) = record(look, subject)? else { return Ok(None) };
    let late = record.reservation.filter(|reservation| look.is_past_grace(reservation.until));
    let Some(late) = late else { return Ok(None) };
    free(
        look,
        key,
        format!("the reservation of the key expired at {}, and the start has not released it", late.until),
    )
}
