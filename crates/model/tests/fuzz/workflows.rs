//! Workflow documents: what is accepted reads back, and its runs stay within their bounds whatever the workers answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use interlock_fuzz::{Target, expect_short, on_a_small_stack};
use interlock_model::approval::{Decision, Verdict};
use interlock_model::child::ChildOutcome;
use interlock_model::event::SentEvent;
use interlock_model::job::JobOutcome;
use interlock_model::limit::place::StartPriority;
use interlock_model::limit::{RUN_BYTES_DEFAULT, TURN_BYTES_DEFAULT};
use interlock_model::run::advance::{Advance, TurnContext, advance};
use interlock_model::run::{Head, InboxEvent, Run, RunStatus, Start, StartedFrom};
use interlock_model::step::StepStatus;
use interlock_model::workflow::{Workflow, WorkflowDocument};
use interlock_model::{RunId, Timestamp, json_text};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// Turns of one run that are looked at.
const TURNS_MAX: usize = 12;

/// Rendered for each item, it is more than a turn may render.
fn input() -> Value {
    json!({"n": 1, "s": "text", "list": [1, "a", {}], "big": "x".repeat(64 << 10), "items": vec![1; 300]})
}

const EXPRESSIONS: [&str; 13] = [
    "true",
    "input.n == 1",
    "steps.a.output",
    "input.items",
    "input.list",
    "ctx",
    "item",
    "error",
    "loop.last",
    "nope > 1",
    "((",
    "input.big + input.big",
    "[1, 2].map(x, x * 2)",
];

const TEMPLATES: [&str; 9] = [
    "plain",
    "${input.big}",
    "${input.n} of ${input.list}",
    "${steps.b.output.x}",
    "${item}",
    "${loop.index}: ${loop.last}",
    "$${x}",
    "${",
    "${error}",
];

/// A field that some steps have.
type Field = BoxedStrategy<Option<(&'static str, Value)>>;

fn optional(field: &'static str, values: Vec<Value>) -> Field {
    proptest::option::weighted(0.4, select(values).prop_map(move |value| (field, value))).boxed()
}

fn texts(of: &[&str]) -> Vec<Value> {
    of.iter().map(|text| json!(text)).collect()
}

fn fields() -> Vec<Field> {
    let numbers = || vec![json!(0), json!(0.05), json!(1), json!(1e300), json!(-1), json!("1")];
    let inputs = TEMPLATES.map(|text| json!({"a": text, "deep": [{"b": text}]})).to_vec();
    let retry = vec![
        json!({"max_retries": 2}),
        json!({"max_retries": 1, "initial_backoff_sec": 0.1}),
        json!({}),
        json!({"jitter": "fixed"}),
    ];
    let edges = vec![json!([]), json!(["a"]), json!(["a", "b"]), json!(["missing"])];
    vec![
        optional("topic", texts(&["t", "job.build", "no topic"])),
        optional("depends_on", edges),
        optional("condition", texts(&EXPRESSIONS)),
        optional("for_each", texts(&EXPRESSIONS)),
        optional("max_parallel", numbers()),
        optional("input", inputs),
        optional(
            "output_schema",
            vec![json!(true), json!({"type": "object"}), json!({"$ref": "#"}), json!(7)],
        ),
        optional("on_error", texts(&["c", "d", "missing"])),
        optional("retry", retry),
        optional("timeout_sec", numbers()),
        optional("queue_timeout_sec", numbers()),
        optional("total_timeout_sec", numbers()),
        optional("delay_sec", numbers()),
        optional("delay_until", texts(&["2026-01-31T12:00:00Z", "${input.s}", "soon"])),
        optional(
            "event",
            vec![
                json!({"name": "e"}),
                json!({"name": "e", "key": "${input.n}", "match": "event.data.x > 3"}),
                json!({"name": "e", "match": "event.data.x + input.s"}),
                json!({"name": "no name"}),
            ],
        ),
        optional(
            "meta",
            vec![json!({"priority": "critical"}), json!({"requires": ["gpu"]}), json!({"x": 1})],
        ),
    ]
}

/// One step with a few fields. One that its type lacks is rejected at once, which is interesting only now and then.
fn step() -> impl Strategy<Value = Value> {
    let kinds = [
        "worker",
        "worker",
        "llm",
        "approval",
        "condition",
        "delay",
        "transform",
        "notify",
        "switch",
        "subworkflow",
        "parallel",
        "parallel",
        "loop",
        "loop",
        "storage",
        "storage",
        "wait_event",
    ];
    let kind = select(kinds.to_vec());
    (kind, fields(), inputs(), proptest::bool::weighted(0.05)).prop_map(|(kind, fields, inputs, has_all)| {
        let given = fields.into_iter().flatten().filter(|(name, _)| has_all || fits(kind, name));
        let mut step: Map<String, Value> = given.map(|(name, value)| (name.to_owned(), value)).collect();
        step.insert("type".to_owned(), json!(kind));
        if kind == "delay" && !step.contains_key("delay_until") {
            step.entry("delay_sec").or_insert(json!(1));
        }
        if kind == "switch" {
            let case = |next| json!({"when": "true", "next": next});
            step.insert("input".to_owned(), json!({"cases": [case("a"), case("d")], "default": "b"}));
        }
        if kind == "wait_event" {
            step.entry("event").or_insert(json!({"name": "e"}));
        }
        if kind == "subworkflow" {
            let mapping = step.remove("input").unwrap_or(json!({}));
            step.insert("input".to_owned(), json!({"workflow_id": "w", "input_mapping": mapping}));
        }
        if let Some(input) = inputs.get(kind) {
            step.insert("input".to_owned(), input.clone());
        }
        Value::Object(step)
    })
}

/// The inputs of the types that read theirs themselves, by type.
fn inputs() -> impl Strategy<Value = BTreeMap<&'static str, Value>> {
    let inputs = (branches(), rounds(), storage());
    inputs.prop_map(|(branches, rounds, storage)| {
        BTreeMap::from([("parallel", branches), ("loop", rounds), ("storage", storage)])
    })
}

/// The input of a storage step.
fn storage() -> impl Strategy<Value = Value> {
    let inputs = vec![
        json!({"operation": "write", "key": "a.b", "value": "${input.n}"}),
        json!({"operation": "write", "key": "a.${loop.index}", "value": {"x": "${ctx.a}", "error": "${error}"}}),
        json!({"operation": "write", "key": "a", "value": "${input.big}"}),
        json!({"operation": "read", "key": "a.b"}),
        json!({"operation": "delete", "key": "${input.s}"}),
    ];
    select(inputs)
}

/// The input of a loop.
fn rounds() -> impl Strategy<Value = Value> {
    let inputs = vec![
        json!({"body": "a", "count": 3}),
        json!({"body": "b", "while": "loop.index < 600", "max_iterations": 1_000}),
        json!({"body": "c", "until": "loop.last.x == 1", "max_iterations": 5}),
        json!({"body": "d", "count": "size(input.items)", "max_iterations": 400}),
        json!({"body": "a", "while": "true"}),
    ];
    select(inputs)
}

/// The input of a parallel step.
fn branches() -> impl Strategy<Value = Value> {
    let inputs = vec![
        json!({"steps": ["a", "b"]}),
        json!({"steps": "b, c", "strategy": "any"}),
        json!({"steps": ["c", "d"], "strategy": "n_of_m", "required": 2}),
        json!({"steps": ["a", "c", "d"], "strategy": "n_of_m", "required": 2}),
        json!({"steps": ["d"]}),
    ];
    select(inputs)
}

fn fits(kind: &str, field: &str) -> bool {
    match field {
        "topic" | "meta" => matches!(kind, "worker" | "llm"),
        "queue_timeout_sec" => matches!(kind, "worker" | "llm"),
        "max_parallel" => matches!(kind, "worker" | "llm" | "subworkflow" | "parallel"),
        "for_each" | "retry" | "total_timeout_sec" => matches!(kind, "worker" | "llm" | "subworkflow"),
        "output_schema" => matches!(kind, "worker" | "llm" | "transform" | "subworkflow" | "wait_event"),
        "timeout_sec" => {
            matches!(kind, "worker" | "llm" | "approval" | "subworkflow" | "parallel" | "loop" | "wait_event")
        }
        "delay_sec" | "delay_until" => kind == "delay",
        "event" => kind == "wait_event",
        "input" => !matches!(kind, "condition" | "delay" | "wait_event"),
        _ => true,
    }
}

fn document() -> impl Strategy<Value = Vec<u8>> {
    let steps = proptest::collection::btree_map(select(vec!["a", "b", "c", "d"]), step(), 1..5);
    let timeout = proptest::option::weighted(0.2, select(vec![json!(5), json!(-1), json!("x")]));
    (steps, timeout).prop_map(|(steps, timeout)| {
        let mut document = json!({"name": "w", "steps": steps});
        if let Some(timeout) = timeout {
            document["timeout_sec"] = timeout;
        }
        document.to_string().into_bytes()
    })
}

fn compiled(document: &WorkflowDocument) -> Option<Workflow> {
    Workflow::compile("w".parse().unwrap(), 1, document).inspect_err(expect_short).ok()
}

/// What is saved means what was sent.
fn expect_to_read_back(document: &WorkflowDocument, workflow: &Workflow) {
    let saved = serde_json::to_string(document).unwrap();
    let read: WorkflowDocument = serde_json::from_str(&saved).unwrap();
    assert_eq!(read, *document);
    let again = compiled(&read).expect("what compiled once compiles again");
    assert_eq!(format!("{again:?}"), format!("{workflow:?}"));
}

/// Each step comes once, after what it depends on.
fn expect_order(workflow: &Workflow) {
    let place: BTreeMap<_, _> = workflow.order.iter().zip(0..).collect();
    assert_eq!(place.len(), workflow.steps.len());
    assert!(!workflow.leaves.is_empty());
    for (id, step) in &workflow.steps {
        assert!(step.depends_on.iter().all(|before| place[before] < place[id]), "{id}");
    }
}

fn started(workflow: &Workflow, now: Timestamp) -> Run {
    let start = Start {
        parent: None,
        run: RunId::new(now, [7; 10]),
        tenant: "acme".parse().unwrap(),
        workflow: workflow.id.clone(),
        workflow_version: 1,
        input: input(),
        idempotency_key: None,
        origin: StartedFrom::Request,
        labels: BTreeMap::new(),
        priority: StartPriority::default(),
        created_at: now,
        trace: None,
    };
    Run { start, head: Head::admitted(now), steps: BTreeMap::new() }
}

/// Answers of workers and people to what a turn opened: results, failures, and results of no job.
fn answers(opened: &Advance, turn: usize, now: Timestamp) -> Vec<InboxEvent> {
    let jobs = opened.effects.dispatched.iter().take(20).enumerate().map(|(at, job)| {
        let outcome = if (at + turn).is_multiple_of(3) {
            JobOutcome::failed("boom".to_owned(), at.is_multiple_of(2))
        } else {
            JobOutcome::completed(json!({"x": at, "big": "y".repeat(1 << 10)}))
        };
        InboxEvent::Job { at: now, job: job.id.clone(), outcome }
    });
    let decided = opened.effects.approvals_opened.iter().map(|approval| InboxEvent::Approval {
        job: approval.job.clone(),
        decision: Decision { verdict: Verdict::Approved, by: "ann".to_owned(), reason: None },
    });
    let children = opened.effects.children.started.iter().take(20).enumerate().map(|(at, child)| {
        let outcome = if (at + turn).is_multiple_of(3) {
            ChildOutcome::Ended { status: RunStatus::Failed, message: "boom".to_owned() }
        } else {
            ChildOutcome::Succeeded { output: json!({"x": at, "big": "y".repeat(1 << 10)}) }
        };
        InboxEvent::Child { step: child.parent.step.clone(), child: child.run, outcome }
    });
    let sent = (0..2).map(|number| {
        let id = format!("{turn}-{number}").parse().unwrap();
        let (name, data) = ("e".parse().unwrap(), json!({"x": turn + number}));
        InboxEvent::Event(Box::new(SentEvent { id, name, key: None, data, by: "ann".to_owned() }))
    });
    jobs.chain(decided).chain(children).chain(sent).collect()
}

/// What belongs to a step ends with it: its rows, its jobs and its children.
fn expect_owners_to_end_all(workflow: &Workflow, turn: &Advance) {
    let run = &turn.run;
    for (id, step) in &workflow.steps {
        for owned in step.kind.owned().iter().filter(|_| run.step_status(id).is_settled()) {
            assert!(run.head.status.is_final() || run.step_status(owned).is_settled(), "{owned} of {id}");
            let mut rows = run.steps.iter().filter(|(key, _)| key.step == *owned);
            assert!(
                rows.all(|(_, row)| row.status.is_settled() && !row.job_open && !row.child_open),
                "{owned}"
            );
            let dispatched = turn.effects.dispatched.iter().find(|job| job.id.step.step == *owned);
            assert!(dispatched.is_none(), "{owned} of {id} is dispatched");
        }
    }
}

/// Each change of the context has a number of its own, and the step that made it has succeeded.
fn expect_changes_once(run: &Run) {
    let changes =
        run.steps.values().filter_map(|step| Some((step.context_change.as_ref()?.number, step.status)));
    let (numbers, statuses): (BTreeSet<u64>, Vec<StepStatus>) = changes.unzip();
    assert_eq!(numbers.len(), statuses.len());
    assert_eq!(numbers.last().copied().unwrap_or(0), statuses.len() as u64, "none is lost");
    assert!(statuses.iter().all(|status| *status == StepStatus::Succeeded));
}

/// No turn is illegal, and none renders or keeps more than it may.
fn expect_bounded_turns(workflow: &Workflow) {
    let mut now = Timestamp::from_millis(1_000_000);
    let mut run = started(workflow, now);
    let mut inbox = Vec::new();
    for turn in 0..TURNS_MAX {
        let advanced = advance(workflow, run, &inbox, &TurnContext::at(now)).expect("every turn is legal");
        let jobs = advanced.effects.dispatched.iter().map(|job| &job.input);
        let inputs = jobs.chain(advanced.effects.children.started.iter().map(|child| &child.input));
        let rendered: usize = inputs.map(|input| input.to_string().len()).sum();
        assert!(rendered as u64 <= 2 * TURN_BYTES_DEFAULT, "one turn dispatched {rendered} bytes");
        assert!(advanced.run.head.held_bytes <= RUN_BYTES_DEFAULT);
        expect_owners_to_end_all(workflow, &advanced);
        expect_changes_once(&advanced.run);
        inbox = answers(&advanced, turn, now);
        run = advanced.run;
        now = now + Duration::from_secs(1);
    }
}

#[test]
fn an_accepted_document_reads_back_and_its_runs_are_bounded() {
    Target::new(env!("CARGO_MANIFEST_DIR"), "workflows").fuzz(document(), |input| {
        on_a_small_stack(|| {
            if json_text::check(input, 64).is_err() {
                return;
            }
            let Ok(document) = serde_json::from_slice::<WorkflowDocument>(input) else { return };
            if let Some(workflow) = compiled(&document) {
                expect_to_read_back(&document, &workflow);
                expect_order(&workflow);
                expect_bounded_turns(&workflow);
            }
        });
    });
}
