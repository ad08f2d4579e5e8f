//! Abandoned locks: ended, and much later forgotten, a few at a time, by requests for other locks.

use interlock_model::Timestamp;
use interlock_model::lock::LockName;

use super::super::rows;
use super::super::tables::{Changes, Pick, Table, View, read};
use super::place::Place;
use super::record::{Lock, Tally};
use crate::StoreError;
use crate::locks::SWEEP_MAX;

/// Sweeps the other locks in the home of `except`. Returns what the home has then.
pub(super) fn sweep(
    view: &dyn View,
    now: Timestamp,
    changes: &mut Changes,
    except: &LockName,
) -> Result<Tally, StoreError> {
    let place = Place::of(except);
    let mut tally: Tally = read(view, Table::LockTallies, place.home())?.unwrap_or_default();
    let LockName::Of(tenant, _) = except else { return Ok(tally) };
    let until = format!("{}/{:015}", place.home(), now.as_millis() + 1);
    let rows = view.scan(Table::LockSweeps, &format!("{}/", place.home()), &until, Pick::First(SWEEP_MAX))?;
    for row in rows {
        let Some(name) = Place::lock(tenant, rows::last_part(&row.key)) else { continue };
        if name == *except {
            continue;
        }
        let lock = Lock::load(view, &name, now, tally)?;
        if lock.is_at_rest() && !lock.has_changed() {
            lock.forget(changes)?;
        } else {
            tally = lock.save(changes);
        }
    }
    Ok(tally)
}
