//! Planted bugs of jobs and their timeouts.

use interlock_backend::local::{Table, View};
use interlock_model::job::Job;

use crate::planted::{Found, edit};

/// An attempt ends by when its job was dispatched.
pub(crate) fn time_from_dispatch(view: &dyn View, table: Table, key: &str) -> Found {
    let found = view.get(table, key)?;
    if table != Table::Jobs {
        return Ok(found);
    }
    let change = |job: &mut Job| {
        let own = job.new.timeout.take().map(|timeout| job.created_at + timeout);
        job.new.deadline_at = own.into_iter().chain(job.new.deadline_at).min();
    };
    Ok(found.map(|row| edit(Some(row), change)))
}
