//! Scenarios of advancing a run.

mod children;
mod events;
mod fan_out;
mod gathering;
mod graph;
mod parallel;
mod paths;
mod pieces;
mod policy;
mod releases;
mod retries;
mod rounds;
mod size;
mod storage;
mod switches;
mod timeouts;
mod tries;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Head, InboxEvent, Run, RunStatus, Start, StartedFrom};
use super::{Effects, TurnContext, advance};
use crate::approval::{Decision, Verdict};
use crate::history::EventKind;
use crate::job::{JobOutcome, NewJob};
use crate::limit::RunBounds;
use crate::limit::place::StartPriority;
use crate::step::{ErrorCode, StepRun, StepStatus};
use crate::workflow::{Workflow, WorkflowDocument};
use crate::{RunId, StepKey, Timestamp};

/// A run under test with a manual clock.
struct TestRun {
    workflow: Workflow,
    run: Run,
    now: Timestamp,
    bounds: RunBounds,
    wall_lead: i64,
    jobs: Vec<NewJob>,
    /// Of all turns.
    effects: Effects,
    events: Vec<(EventKind, Option<String>)>,
    rows_written: usize,
    /// The most rows of steps, or jobs, that one turn has written.
    largest_piece: usize,
}

impl TestRun {
    fn of(steps: &Value, input: Value) -> Self {
        Self::of_document(&json!({"name": "test", "steps": steps}), input)
    }

    fn of_document(document: &Value, input: Value) -> Self {
        let mut test = Self::admitted(document, input);
        test.turn(&[]);
        test
    }

    /// A run before its first turn.
    fn admitted(document: &Value, input: Value) -> Self {
        let document: WorkflowDocument = serde_json::from_value(document.clone()).unwrap();
        let id: crate::WorkflowId = "test".parse().unwrap();
        let workflow = Workflow::compile(id.clone(), 1, &document.with_defaults()).unwrap();
        let now = Timestamp::from_millis(1_000_000);
        let run = RunId::new(now, [7; 10]);
        let start = Start {
            run,
            tenant: "acme".parse().unwrap(),
            workflow: id,
            workflow_version: 1,
            input,
            idempotency_key: None,
            origin: StartedFrom::Request,
            parent: None,
            labels: BTreeMap::new(),
            priority: StartPriority::default(),
            created_at: now,
            trace: None,
        };
        let run = Run { start, head: Head::admitted(now), steps: BTreeMap::new() };
        Self::before_first_turn(workflow, run)
    }

    fn context(&self) -> TurnContext {
        TurnContext { wall_lead: self.wall_lead, bounds: self.bounds, ..TurnContext::at(self.now) }
    }

    fn before_first_turn(workflow: Workflow, run: Run) -> Self {
        let now = run.start.created_at;
        let (jobs, effects, events) = (Vec::new(), Effects::default(), Vec::new());
        Self {
            workflow,
            run,
            now,
            bounds: RunBounds::default(),
            wall_lead: 0,
            jobs,
            effects,
            events,
            rows_written: 0,
            largest_piece: 0,
        }
    }

    /// Makes a turn, and those that continue it.
    fn turn(&mut self, inbox: &[InboxEvent]) {
        let mut continues = self.piece(inbox);
        while continues {
            continues = self.piece(&[]);
        }
    }

    /// Makes one turn. Returns whether it was cut.
    fn piece(&mut self, inbox: &[InboxEvent]) -> bool {
        let advanced = advance(&self.workflow, self.run.clone(), inbox, &self.context()).unwrap();
        self.run = advanced.run;
        self.rows_written += advanced.changed.len();
        self.largest_piece =
            self.largest_piece.max(advanced.changed.len()).max(advanced.effects.dispatched.len());
        let events =
            advanced.events.into_iter().map(|event| (event.kind, event.step.map(|step| step.to_string())));
        self.events.extend(events);
        let Effects { dispatched, revoked, approvals_opened, approvals_withdrawn, buried, children, waits } =
            advanced.effects;
        self.jobs.extend(dispatched.iter().cloned());
        self.jobs.retain(|job| !revoked.contains(&job.id));
        self.effects.dispatched.extend(dispatched);
        self.effects.revoked.extend(revoked);
        self.effects.approvals_opened.extend(approvals_opened);
        self.effects.approvals_withdrawn.extend(approvals_withdrawn);
        self.effects.buried.extend(buried);
        self.effects.children.started.extend(children.started);
        self.effects.children.cancelled.extend(children.cancelled);
        self.effects.children.report = children.report.or(self.effects.children.report.take());
        self.effects.waits.begun.extend(waits.begun);
        self.effects.waits.ended.extend(waits.ended);
        advanced.continues
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.turn(&[]);
    }

    /// Reports this outcome for the oldest open job.
    fn report(&mut self, outcome: JobOutcome) -> NewJob {
        let job = self.jobs.remove(0);
        self.turn(&[InboxEvent::Job { at: crate::Timestamp::ZERO, job: job.id.clone(), outcome }]);
        job
    }

    fn complete(&mut self, output: Value) -> NewJob {
        self.report(JobOutcome::completed(output))
    }

    fn fail(&mut self, retryable: bool) -> NewJob {
        self.report(JobOutcome::failed("boom".to_owned(), retryable))
    }

    fn decide(&mut self, verdict: Verdict) {
        let job = self.step("gate").job.clone().unwrap();
        let decision = Decision { verdict, by: "ann".to_owned(), reason: None };
        self.turn(&[InboxEvent::Approval { job, decision }]);
    }

    fn step(&self, key: &str) -> &StepRun {
        &self.run.steps[&key.parse::<StepKey>().unwrap()]
    }

    /// Reports this outcome for the open job of a step.
    fn report_of(&mut self, step: &str, outcome: JobOutcome) {
        let at = self.jobs.iter().position(|job| job.id.step.to_string() == step);
        let job = self.jobs.remove(at.expect("the step has an open job"));
        self.turn(&[InboxEvent::Job { at: Timestamp::ZERO, job: job.id, outcome }]);
    }

    fn complete_of(&mut self, step: &str, output: Value) {
        self.report_of(step, JobOutcome::completed(output));
    }

    fn fail_of(&mut self, step: &str) {
        self.report_of(step, JobOutcome::failed("boom".to_owned(), false));
    }

    fn statuses(&self, steps: &str) -> Vec<StepStatus> {
        steps.split(' ').map(|step| self.run.step_status(&step.parse().unwrap())).collect()
    }

    fn error_code(&self) -> Option<ErrorCode> {
        self.run.head.error.as_ref().map(|error| error.code)
    }

    fn open_jobs(&self) -> Vec<String> {
        self.jobs.iter().map(|job| job.id.step.to_string()).collect()
    }

    fn status(&self) -> RunStatus {
        self.run.head.status
    }

    fn has_event(&self, kind: EventKind) -> bool {
        self.events.iter().any(|(found, _)| *found == kind)
    }
}

fn worker() -> Value {
    json!({"type": "worker", "topic": "t"})
}
