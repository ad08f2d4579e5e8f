//! Spans of a run's life, for exporters of traces: each is emitted when it ends, as an event of its own target.

use std::time::Duration;

use interlock_backend::runs::AcquiredRun;
use interlock_backend::verbs::Admit;
use interlock_model::admission::StartOutcome;
use interlock_model::job::JobOutcome;
use interlock_model::run::InboxEvent;
use interlock_model::trace::{RunTrace, SampleRatio, TraceParent, span_of};
use interlock_model::{JobId, RunId, TenantId, Timestamp};
use tokio::time::Instant;

use crate::journal;

/// The target of these events.
pub const TARGET: &str = "interlock_traces";

/// Jobs of one turn that get a span; a large fan-out is represented by its first ones.
const JOBS_MAX: usize = 64;

const START: &str = "start";
const ADMISSION: &str = "admission";
const DISPATCH: &str = "dispatch";
const CLAIM: &str = "claim";
const RESULT: &str = "result";

/// The run that a span belongs to.
#[derive(Debug, Clone, Copy)]
struct TracedRun<'a> {
    trace: RunTrace,
    tenant: &'a TenantId,
    run: RunId,
}

impl TracedRun<'_> {
    fn about_run(self, name: &str, parent: Option<u64>, took: Duration) {
        let span = span_of(&self.run.to_string(), name);
        self.emit((name, span), parent, took, None);
    }

    fn about_job(self, name: &str, parent: u64, job: &JobId, took: Duration) {
        let span = span_of(&job.to_string(), name);
        self.emit((name, span), Some(parent), took, Some(job));
    }

    fn emit(self, (name, span): (&str, u64), parent: Option<u64>, took: Duration, job: Option<&JobId>) {
        let Self { trace, tenant, run } = self;
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let job = job.map(tracing::field::display);
        tracing::info!(
            target: TARGET, span_name = name, trace_id = trace.id, span_id = span, parent_id = parent, took_us,
            %tenant, %run, job
        );
    }
}

/// Which runs are traced.
#[derive(Debug, Clone, Copy)]
pub struct Traces {
    /// None: no spans are emitted.
    sampled: Option<SampleRatio>,
}

impl Traces {
    pub(crate) fn new(sampled: Option<SampleRatio>) -> Self {
        Self { sampled }
    }

    /// The client's span, if a run of it could be traced.
    pub(crate) fn parent(self, parent_span: Option<TraceParent>) -> Option<TraceParent> {
        parent_span.filter(|_| self.sampled.is_some())
    }

    fn run_trace(self, run: RunId, parent_span: Option<TraceParent>) -> Option<RunTrace> {
        RunTrace::of(run, parent_span, self.sampled?)
    }

    /// A client was answered that the run was started.
    pub fn request_answered(
        self,
        tenant: &TenantId,
        run: RunId,
        parent_span: Option<TraceParent>,
        took: Duration,
    ) {
        if let Some(trace) = self.run_trace(run, parent_span) {
            TracedRun { trace, tenant, run }.about_run(START, trace.parent, took);
        }
    }

    pub(crate) fn decided(self, admit: &Admit, decided: &StartOutcome, took: Duration) {
        let StartOutcome::Admitted { run, .. } = *decided else { return };
        let Some(trace) = self.run_trace(run, admit.request.trace) else { return };
        let of = TracedRun { trace, tenant: &admit.request.tenant, run };
        of.about_run(ADMISSION, Some(span_of(&run.to_string(), START)), took);
        let dispatched = admit.first_turn().into_iter().flat_map(|turn| &turn.dispatched);
        for job in dispatched.take(JOBS_MAX) {
            of.about_job(DISPATCH, span_of(&run.to_string(), ADMISSION), &job.id, took);
        }
    }

    /// The parent of a worker's own spans, if its job's run is traced.
    pub fn for_worker(self, job: &JobId, parent_span: Option<TraceParent>) -> Option<TraceParent> {
        Some(self.run_trace(job.run, parent_span)?.for_worker(job))
    }

    pub(crate) fn claimed(self, (tenant, job): (&TenantId, &JobId), parent_span: Option<TraceParent>) {
        let Some(trace) = self.run_trace(job.run, parent_span) else { return };
        let parent = trace.for_worker(job);
        TracedRun { trace, tenant, run: job.run }.about_job(CLAIM, parent.span, job, Duration::ZERO);
    }

    /// A turn begins.
    pub(crate) fn turn(self, taken: &AcquiredRun) -> TurnTrace {
        let trace = self.run_trace(taken.start.run, taken.start.trace);
        let waited = |(job, at): (&JobId, Timestamp)| (job.clone(), taken.now.since(at));
        let results = taken.inbox.iter().filter_map(result_of).map(waited).take(JOBS_MAX);
        let results = if trace.is_some() { results.collect() } else { Vec::new() };
        TurnTrace { trace, began: Instant::now(), results }
    }
}

/// The job of a worker's result, and when the result arrived.
pub(crate) fn result_of(event: &InboxEvent) -> Option<(&JobId, Timestamp)> {
    match event {
        InboxEvent::Job { job, outcome: JobOutcome::Completed { .. } | JobOutcome::Failed { .. }, at } => {
            Some((job, *at))
        }
        InboxEvent::Job { .. }
        | InboxEvent::Approval { .. }
        | InboxEvent::ApprovalAsked { .. }
        | InboxEvent::Cancel { .. }
        | InboxEvent::Child { .. }
        | InboxEvent::Event(_)
        | InboxEvent::Granted { .. }
        | InboxEvent::Replaced { .. }
        | InboxEvent::Retry { .. } => None,
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
    pub(crate) fn committed(&self, turn: &journal::TurnLog) {
        let Some(trace) = self.trace else { return };
        let of = TracedRun { trace, tenant: &turn.tenant, run: turn.run };
        let took = self.began.elapsed();
        for (job, waited) in &self.results {
            of.about_job(RESULT, trace.for_worker(job).span, job, *waited + took);
        }
        for (job, _) in turn.dispatched.iter().take(JOBS_MAX) {
            of.about_job(DISPATCH, span_of(&turn.run.to_string(), ADMISSION), job, took);
        }
    }
}
