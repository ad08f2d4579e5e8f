//! Workers' leases and their index by time.

use interlock_model::JobId;
use interlock_model::job::JobLease;

use super::super::rows;
use super::super::tables::{Changes, Table};
use super::{Fault, Known, Look};
use crate::StoreError;

pub(super) fn without_job(look: &Look<'_>, job: &JobId) -> Result<Option<Fault>, StoreError> {
    let why = match look.job(job)? {
        Known::Absent => "is not there",
        Known::Is(known) if known.end.is_some() => "has ended",
        Known::Is(_) | Known::Unreadable => return Ok(None),
    };
    let key = rows::job(look.tenant, job);
    let lease: Known<JobLease> = look.read(Table::JobLeases, &key)?;
    let expiries = look.keys_of(Table::JobExpiries, &job.to_string())?;
    let is_seen_at_its_lease = look.at.is_some_and(|(table, _)| table == Table::JobExpiries);
    let worker = match lease {
        Known::Unreadable => return Ok(None),
        Known::Is(_) if is_seen_at_its_lease => return Ok(None),
        Known::Absent if expiries.is_empty() => return Ok(None),
        Known::Is(lease) => format!("worker {}", lease.worker),
        Known::Absent => "somebody".to_owned(),
    };
    let mut changes = Changes::default();
    changes.delete(Table::JobLeases, key);
    for expiry in expiries {
        changes.delete(Table::JobExpiries, expiry);
    }
    Ok(Some(Fault::new(format!("{worker} has a lease on the job, which {why}"), changes)))
}

pub(super) fn not_indexed(look: &Look<'_>, job: &JobId) -> Result<Option<Fault>, StoreError> {
    let lease: Known<JobLease> = look.read(Table::JobLeases, &rows::job(look.tenant, job))?;
    let Known::Is(lease) = lease else { return Ok(None) };
    let expiry = rows::expiry(look.tenant, lease.expires_at, job);
    if look.open_job(job)?.is_none() || look.is_there(Table::JobExpiries, &expiry)? {
        return Ok(None);
    }
    let mut changes = Changes::default();
    changes.mark(Table::JobExpiries, expiry);
    let JobLease { worker, expires_at, .. } = lease;
    let detail = format!("nobody would notice that the lease of worker {worker} runs out at {expires_at}");
    Ok(Some(Fault::new(detail, changes)))
}
