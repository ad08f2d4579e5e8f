//! Jobs: held by one worker at a time, ended once.

use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::jobs::{Claimed, Heartbeat, LeaseTerm, Report};
use interlock_model::job::EndCause;
use interlock_model::{Clock, Fence, JobId, TenantId, Timestamp};

use super::Checker;
use crate::Invariant;

/// A job, as the calls and answers say that it must be.
#[derive(Clone, Copy)]
pub(super) enum Job {
    Queued,
    Held {
        fence: Fence,
        ttl: Duration,
        until: Timestamp,
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
            let held = Job::Held { fence: lease.fence, ttl: lease.ttl, until: lease.expires_at };
            let before = self.jobs.insert(job.id.clone(), held);
            self.require(matches!(before, Some(Job::Queued)), Invariant::HolderIsLeftAlone, || {
                format!("{} was given to a worker and did not wait for one", job.id)
            });
        }
    }

    /// Whether `fence` is the present hold on the job.
    fn holds(&self, job: &JobId, fence: Fence) -> bool {
        let now = self.clock.now();
        match self.jobs.get(job) {
            Some(Job::Held { fence: present, until, .. }) => *present == fence && now < *until,
            Some(Job::Queued | Job::Ended { .. }) | None => false,
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
        if let Some(Job::Held { ttl, until, .. }) = self.jobs.get_mut(job).filter(|_| is_accepted) {
            let end = now + *ttl;
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
            self.counts.leases_lost += 1;
            let has_run_out = matches!(self.jobs.get(job), Some(Job::Held { until, .. }) if *until <= now);
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
            Some(open @ (Job::Queued | Job::Held { .. })) => *open = Job::Ended { reported },
            Some(Job::Ended { .. }) | None => {}
        }
    }

    /// Open jobs, for a client that cancels one.
    pub(crate) fn open_jobs(&self) -> Vec<(TenantId, JobId)> {
        let open = self.jobs.iter().filter(|(_, job)| !matches!(job, Job::Ended { .. }));
        open.filter_map(|(id, _)| Some((self.runs.get(&id.run)?.tenant.clone(), id.clone()))).collect()
    }
}
