//! How runs go on, told as short stories.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Head, InboxEvent, Run, RunStatus, Start, StartedFrom};
use super::{Command, LOSSES_MAX, advance};
use crate::approval::{Decision, Verdict};
use crate::history::EventKind;
use crate::job::{JobOutcome, NewJob};
use crate::step::{StepRun, StepStatus};
use crate::workflow::{Workflow, WorkflowDocument};
use crate::{JobId, RunId, StepKey, Timestamp};

/// A run on its way, with the clock in the test's hand.
struct Story {
    workflow: Workflow,
    run: Run,
    now: Timestamp,
    jobs: Vec<NewJob>,
    commands: Vec<Command>,
    told: Vec<(EventKind, Option<String>)>,
    rows_written: usize,
}

impl Story {
    fn of(steps: &Value, input: Value) -> Self {
        Self::of_document(&json!({"name": "story", "steps": steps}), input)
    }

    fn of_document(document: &Value, input: Value) -> Self {
        let document: WorkflowDocument = serde_json::from_value(document.clone()).unwrap();
        let id: crate::WorkflowId = "story".parse().unwrap();
        let workflow = Workflow::compile(id.clone(), 1, &document).unwrap();
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
            created_at: now,
        };
        let run = Run { start, head: Head::admitted(now), steps: BTreeMap::new() };
        let (jobs, commands, told) = (Vec::new(), Vec::new(), Vec::new());
        let mut story = Self { workflow, run, now, jobs, commands, told, rows_written: 0 };
        story.go(&[]);
        story
    }

    fn go(&mut self, inbox: &[InboxEvent]) {
        let advanced = advance(&self.workflow, self.run.clone(), inbox, self.now).unwrap();
        self.run = advanced.run;
        self.rows_written += advanced.changed.len();
        let told =
            advanced.events.into_iter().map(|event| (event.kind, event.step.map(|step| step.to_string())));
        self.told.extend(told);
        for command in &advanced.commands {
            match command {
                Command::Dispatch(job) => self.jobs.push(job.clone()),
                Command::Revoke(id) => self.jobs.retain(|job| job.id != *id),
                Command::OpenApproval(_) | Command::WithdrawApproval(_) | Command::BuryJob { .. } => {}
            }
        }
        self.commands.extend(advanced.commands);
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.go(&[]);
    }

    /// The oldest open job ends this way.
    fn report(&mut self, outcome: JobOutcome) -> NewJob {
        let job = self.jobs.remove(0);
        self.go(&[InboxEvent::Job { job: job.id.clone(), outcome }]);
        job
    }

    fn complete(&mut self, output: Value) -> NewJob {
        self.report(JobOutcome::Completed { output })
    }

    fn fail(&mut self, retryable: bool) -> NewJob {
        self.report(JobOutcome::Failed { error: "boom".to_owned(), retryable })
    }

    fn decide(&mut self, verdict: Verdict) {
        let job = self.step("gate").job.clone().unwrap();
        let decision = Decision { verdict, by: "ann".to_owned(), reason: None };
        self.go(&[InboxEvent::Approval { job, decision }]);
    }

    fn step(&self, key: &str) -> &StepRun {
        &self.run.steps[&key.parse::<StepKey>().unwrap()]
    }

    fn status(&self) -> RunStatus {
        self.run.head.status
    }

    fn has_told(&self, kind: EventKind) -> bool {
        self.told.iter().any(|(told, _)| *told == kind)
    }
}

fn worker() -> Value {
    json!({"type": "worker", "topic": "t"})
}

#[test]
fn a_chain_runs_in_order_and_its_last_output_is_the_runs() {
    let steps = json!({
        "a": worker(),
        "b": {"type": "worker", "topic": "t", "depends_on": ["a"], "input": {"from_a": "${steps.a.output.n}"}},
    });
    let mut story = Story::of(&steps, json!({"x": 1}));
    assert_eq!(story.status(), RunStatus::Running);
    assert_eq!(story.jobs.len(), 1);
    assert_eq!(story.complete(json!({"n": 5})).input, json!({"x": 1}));
    assert_eq!(story.complete(json!("done")).input, json!({"from_a": 5}));
    assert_eq!(story.status(), RunStatus::Succeeded);
    assert_eq!(story.run.head.output, Some(json!({"b": "done"})));
    assert!(story.run.head.completed_at.is_some());
}

#[test]
fn independent_steps_are_dispatched_together() {
    let story = Story::of(&json!({"a": worker(), "b": worker(), "c": worker()}), json!({}));
    assert_eq!(story.jobs.len(), 3);
}

#[test]
fn a_failed_try_is_repeated_after_a_delay_that_its_recorded_seed_explains() {
    let retry = json!({"max_retries": 2, "initial_backoff_sec": 10, "multiplier": 2, "max_backoff_sec": 60});
    let mut story = Story::of(&json!({"a": {"type": "worker", "topic": "t", "retry": retry}}), json!({}));
    for failure in 1..=2_u32 {
        assert_eq!(story.fail(true).id.attempt, failure);
        let wake_at = story.step("a").wake_at.expect("a retry is scheduled");
        let seed = crate::retry::Seed::of_retry(story.run.start.run, &"a".parse().unwrap(), failure);
        let step = &story.workflow.steps[&"a".parse().unwrap()];
        assert_eq!(wake_at, story.now + step.backoff.full_jitter(failure, seed));
        assert_eq!(story.run.head.due_at, Some(wake_at));
        assert!(story.jobs.is_empty());
        story.pass(wake_at.since(story.now));
        assert_eq!(story.jobs.len(), 1);
    }
    story.complete(json!(1));
    assert_eq!(
        (story.status(), story.step("a").attempts, story.step("a").failures),
        (RunStatus::Succeeded, 3, 2)
    );
}

#[test]
fn retries_end_and_the_run_fails() {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 0});
    let mut story = Story::of(&json!({"a": {"type": "worker", "topic": "t", "retry": retry}}), json!({}));
    story.fail(true);
    story.pass(Duration::from_millis(1));
    story.fail(true);
    assert_eq!((story.status(), story.step("a").status), (RunStatus::Failed, StepStatus::Failed));
    assert_eq!(story.run.head.error.as_ref().unwrap().message, "boom");
}

#[test]
fn a_failure_that_is_not_retryable_ends_the_step_at_once() {
    let retry = json!({"max_retries": 5});
    let mut story = Story::of(&json!({"a": {"type": "worker", "topic": "t", "retry": retry}}), json!({}));
    story.fail(false);
    assert_eq!(story.status(), RunStatus::Failed);
}

#[test]
fn a_run_that_fails_revokes_its_other_jobs_in_the_same_turn() {
    let mut story = Story::of(&json!({"a": worker(), "b": worker()}), json!({}));
    let open = story.jobs[1].id.clone();
    story.fail(true);
    assert_eq!(story.status(), RunStatus::Failed);
    assert!(story.commands.contains(&Command::Revoke(open)));
    assert_eq!(story.step("b").status, StepStatus::Cancelled);
}

#[test]
fn a_lost_dispatch_is_repeated_at_once_and_costs_no_retry() {
    let mut story = Story::of(&json!({"a": worker()}), json!({}));
    for lost in 1..LOSSES_MAX {
        assert_eq!(story.report(JobOutcome::Lost).id.attempt, lost);
        assert_eq!(story.jobs.len(), 1);
    }
    assert_eq!((story.step("a").attempts, story.step("a").failures), (LOSSES_MAX, 0));
    let last = story.report(JobOutcome::Lost);
    assert_eq!(story.status(), RunStatus::Failed);
    assert!(story.commands.iter().any(|it| matches!(it, Command::BuryJob { job, .. } if *job == last.id)));
}

#[test]
fn a_result_of_an_older_dispatch_changes_nothing() {
    let mut story = Story::of(&json!({"a": worker()}), json!({}));
    let old = story.report(JobOutcome::Lost);
    let before = story.run.clone();
    story.go(&[InboxEvent::Job { job: old.id, outcome: JobOutcome::Completed { output: json!("late") } }]);
    assert_eq!(story.run, before);
}

#[test]
fn a_step_times_out_by_itself_and_its_job_is_revoked() {
    let steps = json!({"a": {"type": "worker", "topic": "t", "timeout_sec": 5}});
    let mut story = Story::of(&steps, json!({}));
    assert_eq!(story.jobs[0].deadline_at, Some(story.now + Duration::from_secs(5)));
    let job = story.jobs[0].id.clone();
    story.pass(Duration::from_secs(4));
    assert_eq!(story.status(), RunStatus::Running);
    story.pass(Duration::from_secs(1));
    assert_eq!((story.status(), story.step("a").status), (RunStatus::TimedOut, StepStatus::TimedOut));
    assert!(story.commands.contains(&Command::Revoke(job)));
}

#[test]
fn a_lost_dispatch_does_not_get_more_time() {
    let steps = json!({"a": {"type": "worker", "topic": "t", "timeout_sec": 5}});
    let mut story = Story::of(&steps, json!({}));
    let deadline_at = story.jobs[0].deadline_at;
    story.now = story.now + Duration::from_secs(3);
    story.report(JobOutcome::Lost);
    assert_eq!(story.jobs[0].deadline_at, deadline_at);
}

#[test]
fn a_workflow_times_out_by_itself() {
    let document =
        json!({"name": "story", "timeout_sec": 60, "steps": {"a": worker(), "gate": {"type": "approval"}}});
    let mut story = Story::of_document(&document, json!({}));
    assert_eq!(story.run.head.due_at, Some(story.now + Duration::from_mins(1)));
    story.pass(Duration::from_mins(1));
    assert_eq!((story.status(), story.step("a").status), (RunStatus::TimedOut, StepStatus::TimedOut));
    assert!(story.commands.iter().any(|it| matches!(it, Command::WithdrawApproval(_))));
    assert_eq!(story.run.head.due_at, None);
}

#[test]
fn an_approval_waits_while_other_branches_go_on() {
    let steps = json!({
        "gate": {"type": "approval", "input": {"question": "deploy ${input.what}?"}},
        "a": worker(),
        "b": {"type": "worker", "topic": "t", "depends_on": ["a"]},
        "c": {"type": "worker", "topic": "t", "depends_on": ["gate", "b"]},
    });
    let mut story = Story::of(&steps, json!({"what": "it"}));
    assert_eq!(story.status(), RunStatus::Waiting);
    let asked = story.commands.iter().find_map(|it| match it {
        Command::OpenApproval(approval) => Some(approval.input.clone()),
        Command::Dispatch(_)
        | Command::Revoke(_)
        | Command::WithdrawApproval(_)
        | Command::BuryJob { .. } => None,
    });
    assert_eq!(asked, Some(json!({"question": "deploy it?"})));
    story.complete(json!(1));
    assert_eq!(story.jobs.len(), 1, "b was dispatched while the approval is open");
    story.complete(json!(2));
    assert_eq!(story.status(), RunStatus::Waiting);
    story.decide(Verdict::Approved);
    assert_eq!(story.status(), RunStatus::Running);
    story.complete(json!(3));
    assert_eq!(story.status(), RunStatus::Succeeded);
}

#[test]
fn a_rejection_ends_the_run_denied_unless_it_is_handled() {
    let mut story = Story::of(&json!({"gate": {"type": "approval"}, "a": worker()}), json!({}));
    story.decide(Verdict::Rejected);
    assert_eq!((story.status(), story.step("a").status), (RunStatus::Denied, StepStatus::Cancelled));

    let steps =
        json!({"gate": {"type": "approval", "on_error": "tell"}, "tell": {"type": "notify", "input": {}}});
    let mut story = Story::of(&steps, json!({}));
    story.decide(Verdict::Rejected);
    assert_eq!((story.status(), story.step("gate").status), (RunStatus::Succeeded, StepStatus::Denied));
}

#[test]
fn an_approval_that_nobody_answers_times_out() {
    let mut story = Story::of(&json!({"gate": {"type": "approval", "timeout_sec": 30}}), json!({}));
    story.pass(Duration::from_secs(30));
    assert_eq!(story.status(), RunStatus::TimedOut);
    assert!(story.commands.iter().any(|it| matches!(it, Command::WithdrawApproval(_))));
}

#[test]
fn a_false_condition_skips_the_step_and_lets_its_dependents_go_on() {
    let steps = json!({
        "check": {"type": "condition", "condition": "input.n > 3"},
        "big": {"type": "transform", "depends_on": ["check"], "condition": "steps.check.output", "input": {"v": 1}},
        "small": {"type": "transform", "depends_on": ["check"], "condition": "!steps.check.output", "input": {"v": 2}},
        "join": {"type": "transform", "depends_on": ["big", "small"], "input": {"v": "${steps.small.output.v}"}},
    });
    let story = Story::of(&steps, json!({"n": 2}));
    assert_eq!(story.status(), RunStatus::Succeeded);
    assert_eq!(story.step("big").status, StepStatus::Skipped);
    assert_eq!(story.run.head.output, Some(json!({"join": {"v": 2}})));
}

#[test]
fn an_expression_that_fails_fails_its_step() {
    let steps = json!({"a": {"type": "worker", "topic": "t", "condition": "input.n < 'x'"}});
    let story = Story::of(&steps, json!({"n": 1}));
    assert_eq!(story.status(), RunStatus::Failed);
    assert!(story.has_told(EventKind::StepConditionFailed));
}

#[test]
fn delays_end_by_themselves_each_at_its_own_time() {
    let steps = json!({
        "short": {"type": "delay", "delay_sec": 5},
        "long": {"type": "delay", "delay_sec": 9},
        "past": {"type": "delay", "delay_until": "1970-01-01T00:00:01Z"},
        "after": {"type": "worker", "topic": "t", "depends_on": ["short"]},
    });
    let mut story = Story::of(&steps, json!({}));
    assert_eq!(story.step("past").status, StepStatus::Succeeded);
    assert_eq!(story.run.head.due_at, Some(story.now + Duration::from_secs(5)));
    story.pass(Duration::from_secs(5));
    assert_eq!((story.jobs.len(), story.step("long").status), (1, StepStatus::Running));
    story.pass(Duration::from_secs(4));
    story.complete(json!(1));
    assert_eq!(story.status(), RunStatus::Succeeded);
}

#[test]
fn an_error_handler_runs_only_when_it_is_needed_and_makes_good() {
    let steps = json!({
        "main": {"type": "worker", "topic": "t", "on_error": "repair"},
        "repair": {"type": "worker", "topic": "t", "input": {"why": "${error.message}"}},
        "after": {"type": "worker", "topic": "t", "depends_on": ["main"]},
    });
    let mut story = Story::of(&steps, json!({}));
    story.complete(json!(1));
    story.complete(json!(2));
    assert_eq!((story.status(), story.step("repair").status), (RunStatus::Succeeded, StepStatus::Skipped));

    let mut story = Story::of(&steps, json!({}));
    story.fail(false);
    let repair = story.complete(json!("repaired"));
    assert_eq!(repair.input["why"], json!("boom"));
    assert_eq!(repair.input["error"]["step_id"], json!("main"));
    assert_eq!(story.complete(json!(3)).id.step.to_string(), "after");
    assert_eq!(story.status(), RunStatus::Succeeded);
    assert!(story.has_told(EventKind::StepErrorRedirect));
}

#[test]
fn a_handler_that_fails_fails_the_run() {
    let steps = json!({"main": {"type": "worker", "topic": "t", "on_error": "repair"}, "repair": worker()});
    let mut story = Story::of(&steps, json!({}));
    story.fail(false);
    story.fail(false);
    assert_eq!(story.status(), RunStatus::Failed);
}

#[test]
fn a_fan_out_keeps_to_its_width_and_gathers_outputs_in_order() {
    let steps = json!({"each": {
        "type": "worker", "topic": "t", "for_each": "input.items", "max_parallel": 2,
        "input": {"v": "${item}", "at": "${index}"},
    }});
    let mut story = Story::of(&steps, json!({"items": ["a", "b", "c"]}));
    assert_eq!(story.jobs.len(), 2);
    assert_eq!(story.jobs[1].input, json!({"v": "b", "at": 1}));
    assert_eq!(story.jobs[1].id.to_string(), format!("{}:each[1]@1", story.run.start.run));
    let first = story.jobs.remove(0);
    story.complete(json!("B"));
    assert_eq!(story.jobs.len(), 1);
    story.complete(json!("C"));
    assert_eq!(story.status(), RunStatus::Running);
    story.jobs.push(first);
    story.complete(json!("A"));
    assert_eq!(story.status(), RunStatus::Succeeded);
    assert_eq!(story.step("each").output, Some(json!(["A", "B", "C"])));
}

#[test]
fn an_empty_fan_out_succeeds_and_one_over_no_list_fails() {
    let steps = json!({"each": {"type": "worker", "topic": "t", "for_each": "input.items"}});
    assert_eq!(Story::of(&steps, json!({"items": []})).status(), RunStatus::Succeeded);
    assert_eq!(Story::of(&steps, json!({"items": 7})).status(), RunStatus::Failed);
}

#[test]
fn an_item_that_fails_takes_its_step_and_its_siblings_with_it() {
    let steps = json!({"each": {"type": "worker", "topic": "t", "for_each": "[1, 2, 3]"}});
    let mut story = Story::of(&steps, json!({}));
    story.complete(json!(1));
    story.fail(false);
    assert_eq!((story.status(), story.step("each").status), (RunStatus::Failed, StepStatus::Failed));
    assert_eq!(story.step("each[2]").status, StepStatus::Cancelled);
    assert!(story.jobs.is_empty());
    assert!(story.run.head.error.as_ref().unwrap().message.contains("each[1]"));
}

#[test]
fn the_rows_written_for_a_fan_out_grow_with_its_items_and_not_with_their_square() {
    let steps = json!({"each": {"type": "worker", "topic": "t", "for_each": "input", "max_parallel": 8}});
    let items: Vec<u32> = (0..300).collect();
    let mut story = Story::of(&steps, json!(items));
    while !story.jobs.is_empty() {
        story.complete(json!(null));
    }
    assert_eq!(story.status(), RunStatus::Succeeded);
    assert!(story.rows_written <= 300 * 5, "{} rows", story.rows_written);
}

#[test]
fn an_output_that_breaks_its_schema_counts_as_a_failed_try() {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 0});
    let step = json!({"type": "worker", "topic": "t", "output_schema": {"type": "integer"}, "retry": retry});
    let mut story = Story::of(&json!({"a": step}), json!({}));
    story.complete(json!("seven"));
    assert!(story.has_told(EventKind::StepOutputInvalid));
    story.pass(Duration::from_millis(1));
    story.complete(json!(7));
    assert_eq!(story.status(), RunStatus::Succeeded);
}

#[test]
fn a_cancelled_run_ends_at_once_with_everything_of_it() {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 100});
    let steps = json!({"a": {"type": "worker", "topic": "t", "retry": retry}, "b": worker(), "gate": {"type": "approval"}});
    let mut story = Story::of(&steps, json!({}));
    story.fail(true);
    story.go(&[InboxEvent::Cancel { by: "ann".to_owned() }]);
    assert_eq!(story.status(), RunStatus::Cancelled);
    assert!(story.run.steps.values().all(|step| step.status == StepStatus::Cancelled && !step.job_open));
    assert!(story.jobs.is_empty());
    let before = story.run.clone();
    story.pass(Duration::from_secs(1_000));
    assert_eq!(story.run.head.status, before.head.status);
    assert_eq!(story.run.steps, before.steps);
}

#[test]
fn a_notification_stands_in_the_timeline() {
    let steps = json!({"tell": {"type": "notify", "input": {"message": "hello ${input.who}"}}});
    let story = Story::of(&steps, json!({"who": "you"}));
    assert!(story.has_told(EventKind::StepEventEmitted));
    assert_eq!(story.step("tell").output, Some(json!({"message": "hello you"})));
}

#[test]
fn a_job_that_an_operator_cancelled_ends_its_run_cancelled() {
    let mut story = Story::of(&json!({"a": worker()}), json!({}));
    story.report(JobOutcome::Cancelled { by: "ann".to_owned() });
    assert_eq!((story.status(), story.step("a").status), (RunStatus::Cancelled, StepStatus::Cancelled));
}

#[test]
fn an_unknown_job_changes_nothing() {
    let mut story = Story::of(&json!({"a": worker()}), json!({}));
    let job = JobId { run: story.run.start.run, step: "zzz".parse().unwrap(), attempt: 1 };
    let before = story.run.clone();
    story.go(&[InboxEvent::Job { job, outcome: JobOutcome::Lost }]);
    assert_eq!(story.run, before);
}
