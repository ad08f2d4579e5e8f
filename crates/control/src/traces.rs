//! The stretches of a run's life, for whoever exports traces: each is told when it is over, as an event of its own target.
//! Nobody listens unless asked to.

use std::time::Duration;

use interlock_backend::runs::Taken;
use interlock_model::admission::{Admission, StartRun};
use interlock_model::job::JobOutcome;
use interlock_model::run::InboxEvent;
use interlock_model::trace::{RunTrace, TraceParent, span_of};
use interlock_model::{JobId, RunId, TenantId};
use tokio::time::Instant;

use crate::journal;
use crate::service::Control;

/// What these events are told under.
pub const TARGET: &str = "interlock_traces";

/// Jobs of one turn that are told of; a large fan-out is known by its first.
const JOBS_MAX: usize = 64;

const START: &str = "start";
const ADMISSION: &str = "admission";
const DISPATCH: &str = "dispatch";
const CLAIM: &str = "claim";
const RESULT: &str = "result";

/// Whose life it is.
#[derive(Debug, Clone, Copy)]
struct Of<'a> {
    trace: RunTrace,
    tenant: &'a TenantId,
    run: RunId,
}

impl Of<'_> {
    fn about_run(self, name: &str, parent: Option<u64>, took: Duration) {
        let span = span_of(&self.run.to_string(), name);
        self.tell((name, span), parent, took, None);
    }

    fn about_job(self, name: &str, parent: u64, job: &JobId, took: Duration) {
        let span = span_of(&job.to_string(), name);
        self.tell((name, span), Some(parent), took, Some(job));
    }

    fn tell(self, (name, span): (&str, u64), parent: Option<u64>, took: Duration, job: Option<&JobId>) {
        let Self { trace, tenant, run } = self;
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let job = job.map(tracing::field::display);
        tracing::info!(
            target: TARGET, span_name = name, trace_id = trace.id, span_id = span, parent_id = parent, took_us,
            %tenant, %run, job
        );
    }
}

impl Control {
    fn run_trace(&self, run: RunId, told: Option<TraceParent>) -> Option<RunTrace> {
        RunTrace::of(run, told, self.settings.traces?)
    }

    /// A client was answered that the run was started.
    pub fn trace_request(&self, tenant: &TenantId, run: RunId, told: Option<TraceParent>, took: Duration) {
        if let Some(trace) = self.run_trace(run, told) {
            Of { trace, tenant, run }.about_run(START, trace.parent, took);
        }
    }

    pub(crate) fn trace_admission(&self, start: &StartRun, decided: &Admission, took: Duration) {
        let Admission::Admitted { run, .. } = *decided else { return };
        let Some(trace) = self.run_trace(run, start.trace) else { return };
        let of = Of { trace, tenant: &start.tenant, run };
        of.about_run(ADMISSION, Some(span_of(&run.to_string(), START)), took);
        let dispatched = start.first_turn.iter().flat_map(|turn| &turn.dispatched);
        for job in dispatched.take(JOBS_MAX) {
            of.about_job(DISPATCH, span_of(&run.to_string(), ADMISSION), &job.id, took);
        }
    }

    /// Under which span a worker's own go on, if its job's run is traced.
    #[must_use]
    pub fn worker_trace(&self, job: &JobId, told: Option<TraceParent>) -> Option<TraceParent> {
        Some(self.run_trace(job.run, told)?.for_worker(job))
    }

    /// The job was claimed.
    pub(crate) fn trace_claim(&self, (tenant, job): (&TenantId, &JobId), told: Option<TraceParent>) {
        let Some(trace) = self.run_trace(job.run, told) else { return };
        let parent = trace.for_worker(job);
        Of { trace, tenant, run: job.run }.about_job(CLAIM, parent.span, job, Duration::ZERO);
    }

    /// A turn begins that may dispatch and takes results into account.
    pub(crate) fn turn_trace(&self, taken: &Taken) -> TurnTrace {
        let trace = self.run_trace(taken.start.run, taken.start.trace);
        let result = |event: &InboxEvent| match event {
            InboxEvent::Job {
                job,
                outcome: JobOutcome::Completed { .. } | JobOutcome::Failed { .. },
                at,
            } => Some((job.clone(), taken.now.since(*at))),
            InboxEvent::Job { .. }
            | InboxEvent::Approval { .. }
            | InboxEvent::ApprovalAsked { .. }
            | InboxEvent::Cancel { .. }
            | InboxEvent::Retry { .. } => None,
        };
        let results = taken.inbox.iter().filter_map(result).take(JOBS_MAX);
        let results = if trace.is_some() { results.collect() } else { Vec::new() };
        TurnTrace { trace, began: Instant::now(), results }
    }
}

/// A turn of a run that may be traced.
pub(crate) struct TurnTrace {
    trace: Option<RunTrace>,
    began: Instant,
    /// Results that it takes into account, with how long ago each came.
    results: Vec<(JobId, Duration)>,
}

impl TurnTrace {
    pub(crate) fn committed(&self, turn: &journal::Turn) {
        let Some(trace) = self.trace else { return };
        let of = Of { trace, tenant: &turn.tenant, run: turn.run };
        let took = self.began.elapsed();
        for (job, waited) in &self.results {
            of.about_job(RESULT, trace.for_worker(job).span, job, *waited + took);
        }
        for job in turn.dispatched.iter().take(JOBS_MAX) {
            of.about_job(DISPATCH, span_of(&turn.run.to_string(), ADMISSION), &job.id, took);
        }
    }
}
