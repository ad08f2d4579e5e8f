//! Workers' leases and their index by time.

use interlock_model::JobId;
use interlock_model::job::JobLease;

use super::super::rows;
use super::super::tables::Table;
use super::{Checked, Inspection, Known};

pub(super) fn without_job(look: &Inspection<'_>, job: &JobId) -> Checked {
    let why = match look.job(job)? {
        Known::Absent => "is not there",
        Known::Is(known) if known.end.is_some() => "has ended",
        Known::Is(_) | Known::Unreadable => return Ok(None),
    };
    let key = rows::job(look.tenant, job);
    let lease: Known<JobLease> = look.read(Table::JobLeases, &key)?;
    let expiries = look.keys_of(Table::JobExpiries, &job.to_string())?;
    let is_found_at_its_lease = look.at.is_some_and(|(table, _)| table == Table::JobExpiries);
    let worker = match lease {
        Known::Unreadable => return Ok(None),
        Known::Is(_) if is_found_at_its_lease => return Ok(None),
        Known::Absent if expiries.is_empty() => return Ok(None),
        Known::Is(lease) => format!("worker {}", lease.worker),
        Known::Absent => "somebody".to_owned(),
    };
    look.fault(format!("{worker} has a lease on the job, which {why}"), |draft| {
        draft.delete(Table::JobLeases, key);
        draft.delete_all(Table::JobExpiries, expiries);
    })
}

pub(super) fn not_indexed(look: &Inspection<'_>, job: &JobId) -> Checked {
    let lease: Known<JobLease> = look.read(Table::JobLeases, &rows::job(look.tenant, job))?;
    let Known::Is(JobLease { worker, expires_at, .. }) = lease else { return Ok(None) };
    let expiry = rows::timed(look.tenant, expires_at, job);
    if look.open_job(job)?.is_none() || look.is_there(Table::JobExpiries, &expiry)? {
        return Ok(None);
    }
    let detail = format!("nobody would notice that the lease of worker {worker} runs out at {expires_at}");
    look.fault(detail, |draft| draft.mark(Table::JobExpiries, expiry))
}
