//! Jobs: held by one worker at a time, ended once.

use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::jobs::{Claimed, Heartbeat, LeaseTerm, Report};
use interlock_backend::local::Table;
use interlock_model::job::{EndCause, Job as JobRow, NewJob};
use interlock_model::{Clock, Fence, JobId, TenantId, Timestamp};

use super::Checker;
use super::rows::Write;
use crate::Invariant;

/// What a dispatch says of the time of its job.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobTimes {
    /// When it ends unless a worker has claimed it.
    queue_until: Option<Timestamp>,
    timeout: Option<Duration>,
    deadline_at: Option<Timestamp>,
}

impl JobTimes {
    pub(super) fn of(job: &NewJob) -> Self {
        let NewJob { queue_until, timeout, deadline_at, .. } = *job;
        Self { queue_until, timeout, deadline_at }
    }
}

/// A job, as the calls and answers say that it must be.
#[derive(Clone, Copy)]
pub(super) enum Job {
    Queued(JobTimes),
    Held {
        fence: Fence,
        ttl: Duration,
        until: Timestamp,
        /// When the attempt times out, by its claim.
        deadline: Option<Timestamp>,
    },
    /// By its worker's report under `fence`, or without one.
    Ended {
        reported: Option<(Fence, EndCause)>,
    },
}

impl Checker {
    pub(crate) fn claimed(&mut self, id: &TenantId, claimed: &[Claimed]) {
        for Claimed { job, lease, .. } in claimed {
            self.fence_given(id, lease.fence);
            let Some(Job::Queued(times)) = self.jobs.get(&job.id).copied() else {
                let what = format!("{} was given to a worker and did not wait for one", job.id);
                self.violate(Invariant::HolderIsLeftAlone, what);
                continue;
            };
            let own = times.timeout.map(|timeout| lease.claimed_at + timeout);
            let deadline = own.into_iter().chain(times.deadline_at).min();
            self.require(lease.deadline_at == deadline, Invariant::AttemptHasItsTime, || {
                format!("{} must end at {deadline:?} and is to end at {:?}", job.id, lease.deadline_at)
            });
            let (fence, ttl, until) = (lease.fence, lease.ttl, lease.expires_at);
            self.jobs.insert(job.id.clone(), Job::Held { fence, ttl, until, deadline });
        }
    }

    /// Whether `fence` is the present hold on the job.
    fn holds(&self, job: &JobId, fence: Fence) -> bool {
        let now = self.clock.now();
        match self.jobs.get(job) {
            Some(Job::Held { fence: present, until, .. }) => *present == fence && now < *until,
            Some(Job::Queued(_) | Job::Ended { .. }) | None => false,
        }
    }

    /// A call of a worker that only the present holder may make.
    pub(super) fn judge_write(&mut self, (verb, job, fence): (&str, &JobId, Fence), is_accepted: bool) {
        let holds = self.holds(job, fence);
        self.require(holds || !is_accepted, Invariant::NoStaleWrite, || {
            format!("a {verb} for {job} under the stale fence {fence} was accepted")
        });
        self.require(!holds || is_accepted, Invariant::HolderIsLeftAlone, || {
            format!("a {verb} for {job} by its holder under fence {fence} was refused")
        });
    }

    pub(super) fn job_lease_extended(
        &mut self,
        (job, fence): (&JobId, Fence),
        term: Option<LeaseTerm>,
        answer: &Result<Heartbeat, StoreError>,
    ) {
        let is_accepted = matches!(answer, Ok(Heartbeat::Extended { .. }));
        if let (Some(LeaseTerm::For(term)), Some(Job::Held { ttl, .. })) =
            (term, self.jobs.get_mut(job).filter(|_| is_accepted))
        {
            *ttl = term;
        }
        self.judge_write(("heartbeat", job, fence), is_accepted);
        if let Err(StoreError::Fenced { .. }) = answer {
            self.counts.stale_heartbeats_refused += 1;
        }
        let now = self.clock.now();
        let is_kept = self.waiting.contains_key(job);
        if let Some(Job::Held { ttl, until, deadline, .. }) = self.jobs.get_mut(job).filter(|_| is_accepted) {
            let end = now + LeaseTerm::For(*ttl).of(*deadline, now);
            *until = if is_kept { end.max(*until) } else { end };
        }
    }

    pub(crate) fn progress(&mut self, job: &JobId, fence: Fence, answer: &Result<(), StoreError>) {
        self.judge_write(("progress", job, fence), answer.is_ok());
    }

    pub(crate) fn reported(
        &mut self,
        (job, fence): (&JobId, Fence),
        cause: EndCause,
        answer: &Result<Report, StoreError>,
    ) {
        match answer {
            Ok(Report::AlreadyRecorded) => {
                self.counts.reports_repeated += 1;
                let known = self.jobs.get(job).copied();
                let is_same =
                    matches!(known, Some(Job::Ended { reported: Some(first) }) if first == (fence, cause));
                self.require(is_same, Invariant::ReportedOnce, || {
                    format!("{job} was not reported so before")
                });
            }
            Ok(Report::Recorded) => {
                let has_ended = matches!(self.jobs.get(job), Some(Job::Ended { reported: Some(_) }));
                self.require(!has_ended, Invariant::ReportedOnce, || format!("{job} was reported twice"));
                self.judge_write(("report", job, fence), true);
                self.end_job(job, Some((fence, cause)));
            }
            Err(error) => {
                self.judge_write(("report", job, fence), false);
                self.counts.stale_reports_refused += u64::from(matches!(error, StoreError::Fenced { .. }));
            }
        }
    }

    /// Jobs whose leases the store reports as expired.
    pub(crate) fn expired(&mut self, lost: &[JobId]) {
        let now = self.clock.now();
        for job in lost {
            let has_run_out = match self.jobs.get(job) {
                Some(Job::Held { until, .. }) => *until <= now,
                Some(Job::Queued(times)) => times.queue_until.is_some_and(|until| until <= now),
                Some(Job::Ended { .. }) | None => false,
            };
            if let Some(Job::Queued(_)) = self.jobs.get(job) {
                self.counts.jobs_unclaimed += 1;
            } else {
                self.counts.leases_lost += 1;
            }
            self.require(has_run_out, Invariant::HolderIsLeftAlone, || {
                format!("{job} was called lost while its worker held it")
            });
            // What its worker had said is not lost with it.
            let waited = self.waiting.get(job).copied();
            self.counts.results_kept_from_expiry += u64::from(waited.is_some());
            self.end_job(job, waited.map(|known| (known.fence, known.cause)));
        }
    }

    /// The lease lasts for at least so long from now.
    pub(super) fn extend(&mut self, job: &JobId, lasts: Duration) {
        let end = self.clock.now() + lasts;
        if let Some(Job::Held { until, .. }) = self.jobs.get_mut(job) {
            *until = (*until).max(end);
        }
    }

    /// The job is over, if it was not.
    pub(crate) fn end_job(&mut self, job: &JobId, reported: Option<(Fence, EndCause)>) {
        self.waiting.remove(job);
        match self.jobs.get_mut(job) {
            Some(open @ (Job::Queued(_) | Job::Held { .. })) => *open = Job::Ended { reported },
            Some(Job::Ended { .. }) | None => {}
        }
    }

    /// Open jobs, for a client that cancels one.
    pub(crate) fn open_jobs(&self) -> Vec<(TenantId, JobId)> {
        let open = self.jobs.iter().filter(|(_, job)| !matches!(job, Job::Ended { .. }));
        open.filter_map(|(id, _)| Some((self.runs.get(&id.run)?.tenant.clone(), id.clone()))).collect()
    }

    /// A job that ends because its time is over has had that time.
    pub(super) fn check_timeouts(&mut self, writes: &[Write]) {
        let now = self.clock.now();
        let rows = writes.iter().filter(|(table, ..)| *table == Table::Jobs);
        let rows = rows.filter_map(|(_, _, value)| serde_json::from_str(value.as_ref()?).ok());
        let jobs: Vec<JobRow> = rows.collect();
        for job in
            jobs.into_iter().filter(|job| job.end.as_ref().is_some_and(|end| end.cause == EndCause::TimedOut))
        {
            let until = match self.jobs.get(&job.new.id) {
                Some(Job::Held { deadline, .. }) => *deadline,
                Some(Job::Queued(times)) => times.queue_until,
                Some(Job::Ended { .. }) | None => continue,
            };
            self.counts.jobs_timed_out += 1;
            self.require(until.is_some_and(|until| until <= now), Invariant::AttemptHasItsTime, || {
                format!("{} timed out at {now}, and its time ends at {until:?}", job.new.id)
            });
        }
    }
}
