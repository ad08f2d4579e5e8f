//! Jobs: claimed under a lease and a fence, their results recorded once.

use interlock_backend::Page;
use interlock_backend::jobs::{Claimed, Heartbeat, JOBS_BEFORE_MAX, JobView, LeaseTerm, Report};
use interlock_backend::verbs::{
    AbandonWorker, CancelJob, Claim, CountJobsBefore, ExpireLeases, ExtendJobLease, ListJobs, ReadJob,
    RecordProgress, RecordResult,
};
use interlock_model::JobId;
use interlock_model::history::{Event, EventKind};
use interlock_model::job::{EndCause, Job, JobEnd, JobLease, JobOutcome, JobState};
use interlock_model::queue::KINDS_MAX;
use interlock_model::scheduling::Edge;
use serde_json::json;

use crate::client::ScriptClient;
use crate::encode;
use crate::known::Known;
use crate::policy_holds::read_hold;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Script, script};
use crate::store::Scripted;

impl Scripted for Claim {
    fn script() -> &'static Script {
        script!("claim")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        with_term(Call::to::<Self>(&self.tenant), self.term)
            .with("worker", &self.worker)
            .with("topics", &self.topics)
            .with("capabilities", &self.capabilities)
            .with("topics_document", encode::json(&self.topics))
            .with("capabilities_document", encode::json(&self.capabilities))
            .with("jobs_max", self.jobs_max)
            .with("is_on_http", self.edge == Edge::Http)
            .with("kinds_max", KINDS_MAX)
    }

    fn read(&self, mut reply: Reply) -> Result<Vec<Claimed>, Unreadable> {
        reply.each("claimed", |mut claimed| {
            let lease = JobLease {
                worker: self.worker.clone(),
                fence: claimed.fence("fence")?,
                ttl: claimed.duration("ttl")?,
                expires_at: claimed.time("expires_at")?,
                claimed_at: claimed.time("claimed_at")?,
            };
            Ok(Claimed { job: claimed.json("job")?, lease, queued_at: claimed.time("created_at")? })
        })
    }

    fn learn(&self, answer: &Vec<Claimed>, known: &Known) {
        for claimed in answer {
            known.saw_fence(claimed.lease.fence);
        }
    }
}

impl Scripted for ExtendJobLease {
    fn script() -> &'static Script {
        script!("extend_job_lease")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        let call = Call::to::<Self>(&self.tenant)
            .of("job", &self.job)
            .under(self.fence)
            .with("job", &self.job)
            .with("fence", self.fence);
        match self.term {
            Some(term) => with_term(call, term),
            None => call,
        }
    }

    fn read(&self, mut reply: Reply) -> Result<Heartbeat, Unreadable> {
        if reply.flag("is_cancelled") {
            return Ok(Heartbeat::CancelRequested);
        }
        Ok(Heartbeat::Extended { lease: reply.duration("ttl")?, expires_at: reply.time("expires_at")? })
    }
}

impl Scripted for RecordProgress {
    fn script() -> &'static Script {
        script!("record_progress")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        let event = encode::around_time(|at| {
            let event = Event::new(at, EventKind::StepProgress).of_job(&self.job);
            let event = event.with_data(json!({"percent": self.progress.percent}));
            Event { message: self.progress.message.clone(), ..event }
        });
        Call::to::<Self>(&self.tenant)
            .of("job", &self.job)
            .under(self.fence)
            .with("job", &self.job)
            .with("run", self.job.run)
            .with("fence", self.fence)
            .with("event", event)
    }

    fn read(&self, _: Reply) -> Result<(), Unreadable> {
        Ok(())
    }
}

impl Scripted for RecordResult {
    fn script() -> &'static Script {
        script!("record_result")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant)
            .of("job", &self.job)
            .under(self.fence)
            .with("job", &self.job)
            .with("run", self.job.run)
            .with("fence", self.fence)
            .with("cause", cause_name(self.outcome.cause()))
            .with("event", encode::outcome(&self.job, &self.outcome))
    }

    fn read(&self, mut reply: Reply) -> Result<Report, Unreadable> {
        match reply.text("outcome")?.as_str() {
            "recorded" => Ok(Report::Recorded),
            "already" => Ok(Report::AlreadyRecorded),
            _ => Err(reply.unreadable("outcome")),
        }
    }
}

impl Scripted for CancelJob {
    fn script() -> &'static Script {
        script!("cancel_job")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        let outcome = JobOutcome::Cancelled { by: self.by.clone() };
        Call::to::<Self>(&self.tenant)
            .of("job", &self.job)
            .with("job", &self.job)
            .with("run", self.job.run)
            .with("event", encode::outcome(&self.job, &outcome))
    }

    fn read(&self, mut reply: Reply) -> Result<JobState, Unreadable> {
        Ok(JobState::after(cause_named(&reply.text("cause")?)?))
    }
}

impl Scripted for ExpireLeases {
    fn script() -> &'static Script {
        script!("expire_leases")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("limit", self.limit)
    }

    fn read(&self, mut reply: Reply) -> Result<Vec<JobId>, Unreadable> {
        reply.each("lost", |job| job.into_parsed("job"))
    }
}

impl Scripted for AbandonWorker {
    fn script() -> &'static Script {
        script!("abandon_worker")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("worker", &self.worker).with("limit", self.limit)
    }

    fn read(&self, mut reply: Reply) -> Result<Vec<JobId>, Unreadable> {
        reply.each("lost", |job| job.into_parsed("job"))
    }
}

impl Scripted for CountJobsBefore {
    fn script() -> &'static Script {
        script!("count_jobs_before")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("job", &self.job).with("jobs_max", JOBS_BEFORE_MAX)
    }

    fn read(&self, mut reply: Reply) -> Result<Option<usize>, Unreadable> {
        reply.optional("count")
    }
}

impl Scripted for ReadJob {
    fn script() -> &'static Script {
        script!("read_job")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("job", &self.job)
    }

    fn read(&self, reply: Reply) -> Result<Option<JobView>, Unreadable> {
        reply.when_found(read_view)
    }
}

impl Scripted for ListJobs {
    fn script() -> &'static Script {
        script!("list_jobs")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).page(&self.page).with("state", self.state.map(JobState::name))
    }

    fn read(&self, reply: Reply) -> Result<Page<JobView>, Unreadable> {
        reply.page(read_view)
    }
}

fn with_term(call: Call, term: LeaseTerm) -> Call {
    match term {
        LeaseTerm::For(term) => call.with("term", term),
        LeaseTerm::UntilDeadline { otherwise } => {
            call.with("term", otherwise).with("is_until_deadline", true)
        }
    }
}

/// A job as `lua/shared/job_view.lua` gives it.
fn read_view(mut view: Reply) -> Result<JobView, Unreadable> {
    let (new, created_at) = (view.json("job")?, view.time("created_at")?);
    let job = Job { new, created_at, end: read_end(&mut view)? };
    let (lease, hold) = (read_lease(&mut view)?, read_hold(&mut view)?);
    let state = JobState::of(&job, lease.as_ref(), hold.as_ref());
    Ok(JobView { job, lease, hold, state })
}

pub(crate) fn read_lease(view: &mut Reply) -> Result<Option<JobLease>, Unreadable> {
    let Some(worker) = view.optional("worker")? else { return Ok(None) };
    Ok(Some(JobLease {
        worker,
        fence: view.fence("fence")?,
        ttl: view.duration("ttl")?,
        expires_at: view.time("expires_at")?,
        claimed_at: view.time("claimed_at")?,
    }))
}

fn read_end(view: &mut Reply) -> Result<Option<JobEnd>, Unreadable> {
    let Some(cause) = view.optional_text("end_cause")? else { return Ok(None) };
    Ok(Some(JobEnd {
        cause: cause_named(&cause)?,
        at: view.time("end_at")?,
        held: view.fence("end_held")?,
        fence: view.fence("end_fence")?,
        worker: view.optional("end_worker")?,
    }))
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
