//! Steps and the jobs that they wait for. The subject is the job.

use interlock_model::JobId;
use interlock_model::job::JobOutcome;
use interlock_model::run::InboxEvent;
use interlock_model::step::{StepRun, StepStatus};

use super::super::tables::{Changes, Pick, Row, Table, scan_prefix};
use super::super::{inbox, rows};
use super::{Fault, Known, Look, Standing};
use crate::StoreError;

/// The job that the step of this row waits for.
pub(super) fn awaited(row: &Row) -> Option<String> {
    let step: StepRun = serde_json::from_str(&row.value).ok()?;
    step.job.filter(|_| step.job_open && step.status == StepStatus::Running).map(|job| job.to_string())
}

pub(super) fn without_job(look: &Look<'_>, job: &JobId) -> Result<Option<Fault>, StoreError> {
    let step: Known<StepRun> = look.read(Table::Steps, &rows::step(look.tenant, job.run, &job.step))?;
    let Known::Is(step) = step else { return Ok(None) };
    let is_awaited = step.job_open && step.status == StepStatus::Running && step.job.as_ref() == Some(job);
    if !is_awaited || look.standing(job.run)? != Standing::Live {
        return Ok(None);
    }
    let why = match look.job(job)? {
        Known::Unreadable => return Ok(None),
        Known::Is(known) if known.end.is_none() => return Ok(None),
        Known::Is(_) => "has ended without a word",
        Known::Absent => "is not there",
    };
    if is_on_its_way(look, job)? {
        return Ok(None);
    }
    let mut changes = Changes::default();
    let lost = InboxEvent::Job { at: look.now, job: job.clone(), outcome: JobOutcome::Lost };
    inbox::post(look.view, &mut changes, (look.tenant, job.run), &[lost])?;
    let detail = format!("step {} waits for the job, which {why}", job.step);
    Ok(Some(Fault::new(detail, changes)))
}

/// Whether the run's inbox tells what became of the job.
fn is_on_its_way(look: &Look<'_>, job: &JobId) -> Result<bool, StoreError> {
    let waiting =
        scan_prefix(look.view, Table::Inbox, &rows::of_run(look.tenant, job.run), Pick::First(usize::MAX))?;
    let mut events = waiting.iter().filter_map(|row| serde_json::from_str(&row.value).ok());
    Ok(events.any(|event| matches!(event, InboxEvent::Job { job: told, .. } if told == *job)))
}
