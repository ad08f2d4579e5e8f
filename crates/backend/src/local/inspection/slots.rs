//! Slots and the runs that hold them.

use interlock_model::RunId;

use super::super::rows;
use super::super::tables::Table;
use super::{Checked, Inspection, RunState};

pub(super) fn without_run(look: &Inspection<'_>, run: RunId) -> Checked {
    let has_slot = look.is_there(Table::Active, &rows::run(look.tenant, run))?;
    if !has_slot || !look.is_tenant_readable()? {
        return Ok(None);
    }
    let Some(why) = look.run_state(run)?.why_over() else { return Ok(None) };
    look.try_fault(format!("a slot is taken, and {why}"), |draft| draft.release_slot(run))
}

pub(super) fn missing(look: &Inspection<'_>, run: RunId) -> Checked {
    let has_slot = look.is_there(Table::Active, &rows::run(look.tenant, run))?;
    if has_slot || look.run_state(run)? != RunState::Live || !look.is_tenant_readable()? {
        return Ok(None);
    }
    look.try_fault("the run lives and holds no slot: one more than the cap can run beside it", |draft| {
        draft.acquire_slot(run)
    })
}

pub(super) fn drift(look: &Inspection<'_>) -> Checked {
    let Some(tenant) = look.tenant_row()? else { return Ok(None) };
    let (written, counted) = (tenant.runs_active, look.count(Table::Active)?);
    if written == counted {
        return Ok(None);
    }
    look.try_fault(format!("{written} live runs are written down, and {counted} slots are taken"), |draft| {
        draft.tenant()?.runs_active = counted;
        Ok(())
    })
}
