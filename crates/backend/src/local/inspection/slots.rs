//! Slots and the runs that hold them.

use interlock_model::RunId;

use super::super::tables::{Changes, Table};
use super::super::{rows, slots};
use super::{Fault, Look, Standing};
use crate::StoreError;

pub(super) fn without_run(look: &Look<'_>, run: RunId) -> Result<Option<Fault>, StoreError> {
    if !look.is_there(Table::Active, &rows::run(look.tenant, run))? {
        return Ok(None);
    }
    let Some(why) = look.standing(run)?.why_over() else { return Ok(None) };
    let Some(mut tenant) = look.own_row()? else { return Ok(None) };
    let mut changes = Changes::default();
    slots::give_back(look.view, &mut changes, (look.tenant, &mut tenant), run, look.now)?;
    changes.put(Table::Tenants, look.tenant.as_str(), &tenant);
    Ok(Some(Fault::new(format!("a slot is taken, and {why}"), changes)))
}

pub(super) fn missing(look: &Look<'_>, run: RunId) -> Result<Option<Fault>, StoreError> {
    let has_slot = look.is_there(Table::Active, &rows::run(look.tenant, run))?;
    if has_slot || look.standing(run)? != Standing::Live {
        return Ok(None);
    }
    let Some(mut tenant) = look.own_row()? else { return Ok(None) };
    let mut changes = Changes::default();
    slots::take(&mut changes, look.tenant, &mut tenant, run);
    changes.put(Table::Tenants, look.tenant.as_str(), &tenant);
    Ok(Some(Fault::new("the run lives and holds no slot: one more than the cap can run beside it", changes)))
}

pub(super) fn drift(look: &Look<'_>) -> Result<Option<Fault>, StoreError> {
    let Some(mut tenant) = look.own_row()? else { return Ok(None) };
    let (told, counted) = (tenant.runs_active, look.count(Table::Active)?);
    if told == counted {
        return Ok(None);
    }
    tenant.runs_active = counted;
    let mut changes = Changes::default();
    changes.put(Table::Tenants, look.tenant.as_str(), &tenant);
    let detail = format!("{told} live runs are written down, and {counted} slots are taken");
    Ok(Some(Fault::new(detail, changes)))
}
