//! Jobs: claimed under a lease and a fence, reported once.

use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::jobs::{
    Claim, Claimed, Heartbeat, JOBS_BEFORE_MAX, JobStore, JobView, LeaseTerm, Progress, Report,
};
use interlock_backend::{Page, PageRequest, StoreError};
use interlock_model::history::{Event, EventKind};
use interlock_model::job::{EndCause, Job, JobEnd, JobLease, JobOutcome, JobState};
use interlock_model::queue::KINDS_MAX;
use interlock_model::scheduling::Edge;
use interlock_model::time::millis;
use interlock_model::{Fence, JobId, TenantId, Timestamp, WorkerId};
use serde_json::json;

use crate::holds::read_hold;
use crate::runs::found;
use crate::script::{Call, Fields, Unreadable};
use crate::store::RedisStore;
use crate::{encode, scripts};

impl RedisStore {
    /// Extends a lease, for its own term or for another.
    async fn extend(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        term: Option<LeaseTerm>,
    ) -> Result<Heartbeat, StoreError> {
        let (term, is_until_deadline) = term.map(written_term).unzip();
        let call = Call::write(&scripts::HEARTBEAT, "extend a job's lease", tenant)
            .of("job", job)
            .under(fence)
            .with(job.to_string())
            .with(fence.number())
            .with(term)
            .with(is_until_deadline);
        self.ask(call, |mut fields| {
            if fields.is_empty() {
                return Ok(Heartbeat::CancelRequested);
            }
            let lease = read_duration(&mut fields)?;
            Ok(Heartbeat::Extended { lease, expires_at: fields.time()? })
        })
        .await
    }
}

#[async_trait]
impl JobStore for RedisStore {
    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        let read = |mut fields: Fields| fields.list()?.each(|item| read_claimed(item.list()?, &claim.worker));
        let claimed = self.ask(claim_call(&claim), read).await?;
        for claimed in &claimed {
            self.link.known().saw_fence(claimed.lease.fence);
        }
        Ok(claimed)
    }

    async fn heartbeat(&self, tenant: &TenantId, job: &JobId, fence: Fence) -> Result<Heartbeat, StoreError> {
        self.extend(tenant, job, fence, None).await
    }

    async fn hold(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        term: LeaseTerm,
    ) -> Result<Heartbeat, StoreError> {
        self.extend(tenant, job, fence, Some(term)).await
    }

    async fn progress(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        progress: Progress,
    ) -> Result<(), StoreError> {
        let event = Event::new(Timestamp::ZERO, EventKind::StepProgress).of_job(job);
        let event = event.with_data(json!({"percent": progress.percent}));
        let event = Event { message: progress.message, ..event };
        let call = Call::write(&scripts::PROGRESS, "record progress", tenant).of("job", job).under(fence);
        let call = call.with(job.to_string()).with(job.run.to_string()).with(fence.number());
        self.ask(call.with(encode::without_first_time(&event)), |_| Ok(())).await
    }

    async fn report(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        outcome: JobOutcome,
    ) -> Result<Report, StoreError> {
        let cause = cause_name(outcome.cause());
        let event = encode::outcome(job, outcome);
        let call = Call::write(&scripts::REPORT, "record a result", tenant).of("job", job).under(fence);
        let call = call.with(job.to_string()).with(job.run.to_string()).with(fence.number());
        self.ask(call.with(cause).with(event), |mut fields| match fields.text()?.as_str() {
            "recorded" => Ok(Report::Recorded),
            "already" => Ok(Report::AlreadyRecorded),
            _ => Err(fields.unreadable("report")),
        })
        .await
    }

    async fn cancel_job(&self, tenant: &TenantId, job: &JobId, by: &str) -> Result<JobState, StoreError> {
        let event = encode::outcome(job, JobOutcome::Cancelled { by: by.to_owned() });
        let call = Call::write(&scripts::CANCEL_JOB, "cancel a job", tenant).of("job", job);
        let call = call.with(job.to_string()).with(job.run.to_string()).with(event);
        self.ask(call, |mut fields| Ok(JobState::after(cause_named(&fields.text()?)?))).await
    }

    async fn expire(&self, tenant: &TenantId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let call = Call::write(&scripts::EXPIRE, "expire leases", tenant).with(limit);
        self.ask(call, |mut fields| fields.list()?.each(|job| job.parsed("job id"))).await
    }

    async fn abandon(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
        limit: usize,
    ) -> Result<Vec<JobId>, StoreError> {
        let call = Call::write(&scripts::ABANDON, "end a worker's leases", tenant);
        let call = call.with(worker.as_str()).with(limit);
        self.ask(call, |mut fields| fields.list()?.each(|job| job.parsed("job id"))).await
    }

    async fn jobs_before(&self, tenant: &TenantId, job: &JobId) -> Result<Option<usize>, StoreError> {
        let call = Call::read(&scripts::JOBS_BEFORE, "count the jobs before one", tenant);
        let call = call.with(job.to_string()).with(JOBS_BEFORE_MAX);
        self.ask(call, |mut fields| fields.optional("number of jobs")).await
    }

    async fn job(&self, tenant: &TenantId, job: &JobId) -> Result<Option<JobView>, StoreError> {
        let call = Call::read(&scripts::JOB, "read a job", tenant).of("job", job).with(job.to_string());
        found(self.ask(call, |mut fields| read_view(fields.list()?)).await)
    }

    async fn jobs(
        &self,
        tenant: &TenantId,
        state: Option<JobState>,
        page: &PageRequest,
    ) -> Result<Page<JobView>, StoreError> {
        let call = Call::read(&scripts::JOB_LIST, "list jobs", tenant);
        let call = call.with(page.after.as_deref()).with(page.limit).with(state.map(JobState::name));
        self.ask(call, |fields| fields.page(|item| read_view(item.list()?))).await
    }
}

/// Milliseconds, and whether the step's deadline comes before them.
fn written_term(term: LeaseTerm) -> (u64, bool) {
    match term {
        LeaseTerm::For(term) => (millis(term), false),
        LeaseTerm::UntilDeadline { otherwise } => (millis(otherwise), true),
    }
}

/// A worker's request as `lua/claim.lua` reads it.
fn claim_call(claim: &Claim) -> Call {
    let (term, is_until_deadline) = written_term(claim.term);
    Call::write(&scripts::CLAIM, "claim jobs", &claim.tenant)
        .with(claim.worker.as_str())
        .with(encode::json(&claim.topics))
        .with(encode::json(&claim.capabilities))
        .with(claim.jobs_max)
        .with(term)
        .with(is_until_deadline)
        .with(claim.edge == Edge::Http)
        .with_list(claim.topics.iter(), |call, topic| call.push(topic.as_str()))
        .with_list(claim.capabilities.iter(), |call, capability| call.push(capability.as_str()))
        .with(KINDS_MAX)
}

fn read_claimed(mut fields: Fields, worker: &WorkerId) -> Result<Claimed, Unreadable> {
    let job = fields.json("job")?;
    let fence = fields.fence()?;
    let ttl = read_duration(&mut fields)?;
    let (expires_at, claimed_at) = (fields.time()?, fields.time()?);
    let lease = JobLease { worker: worker.clone(), fence, ttl, expires_at, claimed_at };
    Ok(Claimed { job, lease, queued_at: fields.time()? })
}

/// A job as `lua/shared/job_view.lua` tells it.
fn read_view(mut fields: Fields) -> Result<JobView, Unreadable> {
    let (new, created_at) = (fields.json("job")?, fields.time()?);
    let lease = read_lease(&mut fields)?;
    let hold = read_hold(&mut fields)?;
    let job = Job { new, created_at, end: read_end(&mut fields)? };
    let state = JobState::of(&job, lease.as_ref(), hold.as_ref());
    Ok(JobView { job, lease, hold, state })
}

pub(crate) fn read_lease(fields: &mut Fields) -> Result<Option<JobLease>, Unreadable> {
    let Some(worker) = fields.optional("worker")? else {
        // The four other fields of a lease are as absent as its worker.
        for _ in 0..4 {
            fields.optional_text()?;
        }
        return Ok(None);
    };
    let fence = fields.fence()?;
    let ttl = read_duration(fields)?;
    Ok(Some(JobLease { worker, fence, ttl, expires_at: fields.time()?, claimed_at: fields.time()? }))
}

fn read_end(fields: &mut Fields) -> Result<Option<JobEnd>, Unreadable> {
    let Some(cause) = fields.optional_text()? else { return Ok(None) };
    Ok(Some(JobEnd {
        cause: cause_named(&cause)?,
        at: fields.time()?,
        held: fields.fence()?,
        fence: fields.fence()?,
        worker: fields.optional("worker")?,
    }))
}

fn read_duration(fields: &mut Fields) -> Result<Duration, Unreadable> {
    fields.parsed("duration").map(Duration::from_millis)
}

pub(crate) fn cause_name(cause: EndCause) -> &'static str {
    match cause {
        EndCause::Completed => "completed",
        EndCause::Failed => "failed",
        EndCause::Lost => "lost",
        EndCause::Revoked => "revoked",
        EndCause::Cancelled => "cancelled",
        EndCause::Denied => "denied",
    }
}

fn cause_named(name: &str) -> Result<EndCause, Unreadable> {
    let causes = [
        EndCause::Completed,
        EndCause::Failed,
        EndCause::Lost,
        EndCause::Revoked,
        EndCause::Cancelled,
        EndCause::Denied,
    ];
    let found = causes.into_iter().find(|cause| cause_name(*cause) == name);
    found.ok_or_else(|| Unreadable(format!("{name} is no end of a job")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_written_by_the_script_as_the_model_writes_it() {
        let run = interlock_model::RunId::new(Timestamp::from_millis(1_794_700_800_000), [7; 10]);
        let job: JobId = format!("{run}:build@1").parse().unwrap();
        let event = encode::outcome(&job, JobOutcome::Lost);
        assert_eq!(event, format!(r#","job":"{job}","outcome":"lost"}}}}"#));
    }
}
