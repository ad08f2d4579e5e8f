//! Why a job is not done yet.

use interlock_backend::budgets::BudgetView;
use interlock_backend::jobs::JobView;
use interlock_backend::verbs::{ListJobs, ReadBudget, ReadJob, ReadRun, ReadRunOwnership};
use interlock_backend::{PageRequest, StoreError};
use interlock_model::approval::AskedBudget;
use interlock_model::budget::StepBudget;
use interlock_model::dispatch_policy::{Hold, HoldReason};
use interlock_model::job::{EndCause, JobEnd, JobLease, NewJob};
use interlock_model::scheduling::{WaitReason, awaited_confirmation};
use interlock_model::why::{self, Cause, CauseCode, Holder};
use interlock_model::{JobId, TenantId, Timestamp, Topic};

use super::{Why, WhyAnswer};
use crate::budget_questions::question;

/// Jobs that are read to estimate the pace of a topic.
const JOBS_LOOKED_AT: usize = 200;

impl Why {
    /// None: there is no such job.
    pub async fn job(&self, tenant: &TenantId, id: &JobId) -> Result<Option<WhyAnswer>, StoreError> {
        let Some(found) = self.store.call(ReadJob { tenant: tenant.clone(), job: id.clone() }).await? else {
            return self.why_asked(tenant, id).await;
        };
        let now = self.store.call(ReadRunOwnership { tenant: tenant.clone(), run: id.run }).await?.now;
        let causes = match (&found.job.end, &found.lease) {
            (Some(end), _) => {
                let sentence = format!("the job has ended: {}", found.state.name());
                vec![Cause { since: Some(end.at), ..Cause::new(CauseCode::Ended, sentence) }]
            }
            (None, Some(lease)) if self.process.is_unconfirmed(lease) => {
                vec![leased(lease, CauseCode::Dispatched, awaited_confirmation(&lease.worker))]
            }
            (None, Some(lease)) => vec![working(id, lease, now)],
            (None, None) => {
                let causes = match &found.hold {
                    Some(hold) => vec![self.held(tenant, (&found, hold), now).await?],
                    None => self.why_queued(tenant, &found).await?,
                };
                causes.into_iter().map(|cause| until_given_up(cause, &found.job.new)).collect()
            }
        };
        let of_job = |cause| Cause { job: Some(id.clone()), ..cause };
        Ok(Some(WhyAnswer::new(found.state.name(), now, causes.into_iter().map(of_job).collect())))
    }

    /// A policy or a budget has not released it yet. A person who is asked about a budget reads what is left of it now.
    pub(super) async fn held(
        &self,
        tenant: &TenantId,
        (found, hold): (&JobView, &Hold),
        now: Timestamp,
    ) -> Result<Cause, StoreError> {
        let cause = held(hold, now);
        let is_asked = hold.reason == HoldReason::BudgetApproval;
        let Some(StepBudget { name, reserve }) = found.job.new.budget.clone().filter(|_| is_asked) else {
            return Ok(cause);
        };
        let read = ReadBudget { tenant: tenant.clone(), name: name.clone() };
        let run = ReadRun { tenant: tenant.clone(), run: found.job.new.id.run };
        let (budget, run) = (self.store.call(read).await?, self.store.call(run).await?);
        let Some((BudgetView { budget, .. }, run)) = budget.zip(run) else { return Ok(cause) };
        let Ok((_, group)) = budget.document.group_of_run(&run.start) else { return Ok(cause) };
        let asked = AskedBudget { name, reserve, group };
        let Some(question) = question(&self.process, tenant, asked).await? else { return Ok(cause) };
        Ok(Cause { sentence: question.sentence, until: question.resets_at, ..cause })
    }

    /// What keeps workers from it, and the jobs before it in the queue.
    async fn why_queued(&self, tenant: &TenantId, found: &JobView) -> Result<Vec<Cause>, StoreError> {
        let topic = &found.job.new.topic;
        let Some(waiting) = self.directory.waiting_for(tenant, found).await? else {
            let sentence = format!("the job is leaving the queue of topic {topic}");
            return Ok(vec![Cause::new(CauseCode::Queue, sentence)]);
        };
        let code = match waiting.reason {
            WaitReason::NoWorker => CauseCode::NoWorker,
            WaitReason::Capability => CauseCode::MissingCapability,
            WaitReason::Draining => CauseCode::WorkerDraining,
            WaitReason::Saturated => CauseCode::WorkerSaturated,
            WaitReason::Turn => CauseCode::Queue,
        };
        let position = waiting.position as u64 + 1;
        let sentence =
            format!("job {} waits in the queue of topic {topic}: {}", found.job.new.id, waiting.detail);
        let is_moving = matches!(code, CauseCode::Queue | CauseCode::WorkerSaturated);
        let expected_wait = if is_moving {
            why::at_the_pace_of(&self.lately_done(tenant, topic).await?, position)
        } else {
            None
        };
        let cause = Cause {
            since: Some(found.job.created_at),
            position: Some(position),
            expected_wait,
            ..Cause::new(code, sentence)
        };
        if code == CauseCode::Queue || waiting.position == 0 {
            return Ok(vec![cause]);
        }
        let line = format!("{} before it in the queue of topic {topic}", jobs(waiting.position));
        let behind = Cause { code: CauseCode::Queue, sentence: line, ..cause.clone() };
        Ok(vec![cause, behind])
    }

    /// Why no worker has claimed a job in time that has ended for it.
    pub(super) async fn why_unclaimed(
        &self,
        tenant: &TenantId,
        id: &JobId,
    ) -> Result<Option<String>, StoreError> {
        let Some(found) = self.store.call(ReadJob { tenant: tenant.clone(), job: id.clone() }).await? else {
            return Ok(None);
        };
        let waiting = self.directory.judge(tenant, &found.job.new, 0).await?;
        Ok(Some(waiting.detail))
    }

    /// When jobs of the topic were done, lately.
    async fn lately_done(&self, tenant: &TenantId, topic: &Topic) -> Result<Vec<Timestamp>, StoreError> {
        let newest = PageRequest { limit: JOBS_LOOKED_AT, after: None };
        let jobs =
            self.store.call(ListJobs { tenant: tenant.clone(), state: None, page: newest.clone() }).await?;
        let of_topic = jobs.items.into_iter().filter(|found| found.job.new.topic == *topic);
        let is_done = |end: &JobEnd| matches!(end.cause, EndCause::Completed | EndCause::Failed);
        Ok(of_topic.filter_map(|found| found.job.end).filter(is_done).map(|end| end.at).collect())
    }
}

fn jobs(count: usize) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}

/// A policy or a budget has not released it yet.
fn held(hold: &Hold, now: Timestamp) -> Cause {
    let code = match hold.reason {
        HoldReason::PolicyPending => CauseCode::PolicyPending,
        HoldReason::PolicyUnavailable => CauseCode::PolicyUnavailable,
        HoldReason::PolicyThrottled => CauseCode::PolicyThrottled,
        HoldReason::Approval | HoldReason::BudgetApproval => CauseCode::ApprovalOpen,
        HoldReason::BudgetPending | HoldReason::BudgetApproved => CauseCode::BudgetPending,
        HoldReason::BudgetExhausted => CauseCode::BudgetExhausted,
    };
    let cause = Cause { since: Some(hold.since), ..Cause::new(code, hold.detail.clone()) };
    match hold.look_at.filter(|_| code == CauseCode::PolicyThrottled) {
        Some(at) => cause.ending(at, now),
        None => cause,
    }
}

/// Says when the job ends unless a worker claims it.
fn until_given_up(cause: Cause, job: &NewJob) -> Cause {
    let of_queue = job.queue_until.map(|at| (at, "queue_timeout_sec"));
    let of_step =
        job.deadline_at.map(|at| (at, "total_timeout_sec of the step or timeout_sec of the workflow"));
    let Some((at, bound)) = of_queue.into_iter().chain(of_step).min() else { return cause };
    let sentence = format!("{}. Unless a worker claims it, it times out at {at} ({bound})", cause.sentence);
    Cause { sentence, until: cause.until.into_iter().chain([at]).min(), ..cause }
}

fn working(id: &JobId, lease: &JobLease, now: Timestamp) -> Cause {
    let JobLease { worker, claimed_at, expires_at, deadline_at, .. } = lease;
    let is_over = *expires_at <= now;
    if is_over && deadline_at.is_none_or(|deadline| deadline > *expires_at) {
        let sentence = format!(
            "worker {worker} holds {id} but stopped sending heartbeats; the job will be dispatched again"
        );
        return leased(lease, CauseCode::Working, sentence);
    }
    let seconds = now.since(*claimed_at).as_secs();
    let sentence = format!("worker {worker} works on {id} for {seconds} s now");
    match deadline_at {
        None => leased(lease, CauseCode::Working, sentence),
        Some(at) => {
            let sentence = format!("{sentence}; the attempt times out at {at}");
            Cause { until: Some(*at), ..leased(lease, CauseCode::Working, sentence) }
        }
    }
}

/// A cause that names the worker and its lease.
fn leased(lease: &JobLease, code: CauseCode, sentence: String) -> Cause {
    let JobLease { worker, claimed_at, expires_at, .. } = lease;
    let holder = Holder { name: worker.to_string(), since: Some(*claimed_at), until: Some(*expires_at) };
    Cause { since: Some(*claimed_at), holders: vec![holder], ..Cause::new(code, sentence) }
}
