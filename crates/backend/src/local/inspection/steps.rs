//! Steps and the jobs that they wait for. The subject is the job.

use interlock_model::JobId;
use interlock_model::job::JobOutcome;
use interlock_model::run::InboxEvent;
use interlock_model::step::{StepRun, StepStatus};

use super::super::rows;
use super::super::tables::{Pick, Row, Table, scan_prefix};
use super::{Checked, Fault, Inspection, Known, Remedy, RunState, approvals};
use crate::StoreError;

/// The job that the step of this row waits for.
pub(super) fn awaited(row: &Row) -> Option<String> {
    let step: StepRun = serde_json::from_str(&row.value).ok()?;
    step.job.clone().filter(|_| is_open(&step)).map(|job| job.to_string())
}

/// Whether the step waits for a worker's result or a decision.
fn is_open(step: &StepRun) -> bool {
    step.job_open && matches!(step.status, StepStatus::Running | StepStatus::Waiting)
}

pub(super) fn without_job(look: &Inspection<'_>, job: &JobId) -> Checked {
    let step: Known<StepRun> = look.read(Table::Steps, &rows::step(look.tenant, job.run, &job.step))?;
    let Known::Is(step) = step else { return Ok(None) };
    let is_awaited = is_open(&step) && step.job.as_ref() == Some(job);
    if !is_awaited || look.run_state(job.run)? != RunState::Live || is_on_its_way(look, job)? {
        return Ok(None);
    }
    if step.status == StepStatus::Waiting {
        return without_approval(look, job);
    }
    let why = match look.job(job)? {
        Known::Unreadable => return Ok(None),
        Known::Is(known) if known.end.is_none() => return Ok(None),
        Known::Is(_) => "has ended without a result",
        Known::Absent => "does not exist",
    };
    let lost = InboxEvent::Job { at: look.now, job: job.clone(), outcome: JobOutcome::Lost };
    look.try_fault(format!("step {} waits for the job, which {why}", job.step), |draft| {
        draft.post(job.run, &[lost])
    })
}

fn without_approval(look: &Inspection<'_>, job: &JobId) -> Checked {
    if approvals::open(look, &rows::job(look.tenant, job))?.is_some() {
        return Ok(None);
    }
    let detail = format!("step {} waits for an approval that is not open", job.step);
    Ok(Some(Fault { detail, remedy: Remedy::ByHand(BY_HAND) }))
}

const BY_HAND: &str = "it needs a decision by hand: cancel the run and start it again";

/// Whether the run's inbox has an event about the job.
fn is_on_its_way(look: &Inspection<'_>, job: &JobId) -> Result<bool, StoreError> {
    let waiting =
        scan_prefix(look.view, Table::Inbox, &rows::of_run(look.tenant, job.run), Pick::First(usize::MAX))?;
    let mut events = waiting.iter().filter_map(|row| serde_json::from_str(&row.value).ok());
    Ok(events.any(|event| match event {
        InboxEvent::Job { job: of, .. }
        | InboxEvent::Approval { job: of, .. }
        | InboxEvent::ApprovalAsked { job: of, .. } => of == *job,
        InboxEvent::Cancel { .. }
        | InboxEvent::Child { .. }
        | InboxEvent::Event(_)
        | InboxEvent::Granted { .. }
        | InboxEvent::Replaced { .. }
        | InboxEvent::Retry { .. } => false,
    }))
}
