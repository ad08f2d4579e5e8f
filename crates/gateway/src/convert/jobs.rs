//! Jobs.

use interlock_api::jobs::{ClaimedJob, JobView, WaitingFor};
use interlock_backend::jobs::{self, Claimed};
use interlock_model::dispatch_policy::Hold;
use interlock_model::job::{Job, JobEnd, JobLease, NewJob};
use interlock_model::time::millis;
use interlock_model::{Fence, Timestamp, scheduling};

pub(crate) fn claimed(claimed: Claimed) -> ClaimedJob {
    let Claimed { job: NewJob { id, workflow: _, topic, input, deadline_at, meta: _ }, lease, queued_at: _ } =
        claimed;
    ClaimedJob {
        run_id: id.run,
        step_id: id.step.clone(),
        attempt: id.attempt,
        job_id: id,
        topic,
        fence: lease.fence.number(),
        input,
        lease_ms: millis(lease.ttl),
        deadline_ms: Some(deadline_at.unwrap_or(lease.expires_at).as_millis()),
    }
}

pub(crate) fn view(view: jobs::JobView) -> JobView {
    let jobs::JobView { job: Job { new, created_at, end }, lease, hold, state } = view;
    let NewJob { id, workflow, topic, input, deadline_at, meta: _ } = new;
    let held = lease.as_ref().map(|lease| lease.fence).or(end.as_ref().map(|end| end.held));
    let worker = lease.as_ref().map(|lease: &JobLease| lease.worker.clone());
    let worker = worker.or_else(|| end.as_ref().and_then(|end: &JobEnd| end.worker.clone()));
    JobView {
        run_id: id.run,
        step_id: id.step.clone(),
        attempt: id.attempt,
        job_id: id,
        workflow_id: workflow,
        topic,
        state,
        fence: held.filter(|fence| *fence != Fence::NONE).map(Fence::number),
        worker_id: worker,
        created_at: created_at.into(),
        claimed_at: lease.as_ref().map(|lease| lease.claimed_at.into()),
        lease_expires_at: lease.filter(|_| end.is_none()).map(|lease| lease.expires_at.into()),
        ended_at: end.map(|end| end.at.into()),
        deadline_ms: deadline_at.map(Timestamp::as_millis),
        input,
        waiting_for: hold.map(held_for),
    }
}

pub(crate) fn waiting_for(waiting: scheduling::WaitingFor) -> WaitingFor {
    let scheduling::WaitingFor { reason, detail, position, workers } = waiting;
    WaitingFor { reason: reason.name().to_owned(), detail, position: Some(position), workers: Some(workers) }
}

fn held_for(hold: Hold) -> WaitingFor {
    WaitingFor { reason: hold.reason.name().to_owned(), detail: hold.detail, position: None, workers: None }
}
