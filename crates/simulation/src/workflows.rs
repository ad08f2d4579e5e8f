//! The workflows that simulated clients start: small, and each with something that can go wrong in its own way.

use interlock_model::workflow::WorkflowDocument;
use serde_json::{Value, json};

/// What every worker serves.
pub(crate) const TOPIC: &str = "work";

pub(crate) const NAMES: [&str; 11] =
    ["single", "chain", "fan", "gate", "branch", "pause", "handled", "hasty", "wide", "route", "funded"];

/// Started where results contend for their run.
pub(crate) const CROWD: &str = "crowd";

/// Started as a run by a client in some scenarios. Its children start others, to the third depth.
pub(crate) const NEST: &str = "nest";

/// What it starts, directly or not.
pub(crate) const NESTED: [&str; 3] = ["middle", "inner", "leaf"];

/// Started by those who send events to its runs.
pub(crate) const AWAIT: &str = "await";

/// Its steps that wait for one.
pub(crate) const AWAITING: [&str; 2] = ["one", "two"];

/// Keys that its runs wait for.
pub(crate) const EVENT_KEYS: u32 = 3;

/// Whether a step of it takes the event of this name with this number.
pub(crate) fn takes(step: &str, name: &str, number: u64) -> bool {
    match step {
        "one" => name == "go" && number != 0 && number != 3,
        "two" => name == "go",
        _ => name == "paid",
    }
}

/// The document of this name.
pub(crate) fn document(name: &str) -> WorkflowDocument {
    let (timeout, steps) = match name {
        "chain" => (None, chain()),
        "fan" => (None, fan()),
        "gate" => (None, gate()),
        "branch" => (None, branch()),
        "pause" => (None, pause()),
        "handled" => (None, handled()),
        "hasty" => (Some(6), hasty()),
        "wide" => (None, wide()),
        "route" => (None, route()),
        "funded" => (None, funded()),
        CROWD => (None, crowd()),
        NEST => (None, nest()),
        AWAIT => (None, awaiting()),
        "middle" => (None, middle()),
        "inner" => (Some(12), inner()),
        _ => (None, json!({"only": {"type": "worker", "topic": TOPIC}})),
    };
    let written = json!({"id": name, "name": name, "timeout_sec": timeout, "steps": steps});
    let document: WorkflowDocument =
        serde_json::from_value(written).expect("the documents of the simulation are well formed");
    document.with_defaults()
}

/// What the run gets whose start carries `number`.
pub(crate) fn input(number: u32) -> Value {
    let items: Vec<u32> = (0..=number).collect();
    json!({"number": number, "items": items})
}

fn awaiting() -> Value {
    let event = json!({"name": "go", "match": "event.data.n != 0 && event.data.n != 3"});
    json!({
        "first": {"type": "worker", "topic": TOPIC},
        "one": {"type": "wait_event", "event": event, "timeout_sec": 6, "on_error": "late", "depends_on": ["first"]},
        "two": {"type": "wait_event", "event": {"name": "go"}, "timeout_sec": 6, "on_error": "late", "depends_on": ["one"]},
        "keyed": {"type": "wait_event", "event": {"name": "paid", "key": "k${input.number}"}, "timeout_sec": 4,
            "on_error": "late", "depends_on": ["first"]},
        "late": {"type": "notify", "input": {"text": "too late"}},
    })
}

fn chain() -> Value {
    let retry = json!({"max_retries": 3, "initial_backoff_sec": 0.2, "multiplier": 2, "max_backoff_sec": 1});
    json!({
        "first": {"type": "worker", "topic": TOPIC, "retry": retry},
        "second": {"type": "worker", "topic": TOPIC, "retry": retry, "depends_on": ["first"]},
    })
}

fn fan() -> Value {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 0.1, "multiplier": 1, "max_backoff_sec": 1});
    json!({
        "each": {"type": "worker", "topic": TOPIC, "for_each": "input.items", "max_parallel": 2, "retry": retry},
        "sum": {"type": "transform", "input": {"done": "${size(steps.each.output)}"}, "depends_on": ["each"]},
    })
}

fn gate() -> Value {
    json!({
        "ask": {"type": "approval", "on_error": "apologise", "timeout_sec": 8},
        "ship": {"type": "worker", "topic": TOPIC, "depends_on": ["ask"], "condition": "steps.ask.status == 'succeeded'"},
        "apologise": {"type": "notify", "input": {"text": "no"}, "condition": "input.number > 0"},
    })
}

fn branch() -> Value {
    json!({
        "test": {"type": "condition", "condition": "input.number > 1"},
        "large": {"type": "worker", "topic": TOPIC, "depends_on": ["test"], "condition": "steps.test.output"},
        "small": {"type": "worker", "topic": TOPIC, "depends_on": ["test"], "condition": "!steps.test.output"},
    })
}

fn pause() -> Value {
    json!({
        "wait": {"type": "delay", "delay_sec": 1.5},
        "then": {"type": "worker", "topic": TOPIC, "depends_on": ["wait"]},
    })
}

fn handled() -> Value {
    json!({
        "risky": {"type": "worker", "topic": TOPIC, "on_error": "repair"},
        "repair": {"type": "worker", "topic": TOPIC},
        "after": {"type": "transform", "input": {"ok": true}, "depends_on": ["risky"]},
    })
}

fn hasty() -> Value {
    let retry = json!({"max_retries": 2, "initial_backoff_sec": 0.1, "multiplier": 1, "max_backoff_sec": 1});
    json!({
        "quick": {"type": "worker", "topic": TOPIC, "timeout_sec": 0.7, "queue_timeout_sec": 2, "retry": retry},
        "more": {"type": "worker", "topic": TOPIC, "timeout_sec": 2, "total_timeout_sec": 3, "depends_on": ["quick"]},
    })
}

/// Of two branches one runs, and both lead to the end.
fn route() -> Value {
    let cases = json!([{"when": 0, "next": "none"}, {"when": 1, "next": "one"}]);
    json!({
        "choose": {"type": "switch", "condition": "input.number", "input": {"cases": cases, "default": "many"}},
        "none": {"type": "notify", "input": {"text": "nothing to do"}},
        "one": {"type": "llm", "topic": TOPIC},
        "many": {"type": "worker", "topic": TOPIC, "for_each": "input.items"},
        "check": {"type": "worker", "topic": TOPIC, "depends_on": ["many"]},
        "end": {"type": "transform", "input": {"taken": "${steps.choose.output}"}, "depends_on": ["none", "one", "check"]},
    })
}

/// Steps that spend: one waits for its budget, one fails without it, one asks. Those that may wait have a timeout, because
/// nothing may ever be free again.
fn funded() -> Value {
    let retry = json!({"max_retries": 2, "initial_backoff_sec": 0.1, "multiplier": 1, "max_backoff_sec": 1});
    json!({
        "think": {"type": "llm", "topic": TOPIC, "budget": {"name": "queued", "reserve": "0.00002"}, "timeout_sec": 4,
            "queue_timeout_sec": 4, "retry": retry, "on_error": "stop"},
        "check": {"type": "worker", "topic": TOPIC, "budget": {"name": "denied", "reserve": "0.000015"}, "on_error": "stop",
            "for_each": "input.items", "retry": retry},
        "buy": {"type": "worker", "topic": TOPIC, "budget": {"name": "asked", "reserve": "0.00003"},
            "queue_timeout_sec": 6, "depends_on": ["think"], "on_error": "regret"},
        "stop": {"type": "worker", "topic": TOPIC},
        "regret": {"type": "notify", "input": {"text": "out of money"}},
    })
}

/// Children of two kinds, one of which does not exist.
fn nest() -> Value {
    let mapping = json!({"number": "${index}", "items": "${input.items}"});
    let each = json!({"workflow_id": "middle", "input_mapping": mapping});
    json!({
        "first": {"type": "worker", "topic": TOPIC, "condition": "input.number > 1"},
        "each": {
            "type": "subworkflow", "for_each": "input.items", "max_parallel": 2, "input": each, "depends_on": ["first"],
        },
        "ghost": {
            "type": "subworkflow", "input": {"workflow_id": "ghost"}, "condition": "input.number == 1",
            "on_error": "sorry",
        },
        "sorry": {"type": "notify", "input": {"text": "there is none"}},
        "sum": {"type": "transform", "input": {"done": "${size(steps.each.output)}"}, "depends_on": ["each"]},
    })
}

fn middle() -> Value {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 0.1, "multiplier": 1, "max_backoff_sec": 1});
    json!({
        "ask": {"type": "approval", "condition": "input.number == 2", "timeout_sec": 6},
        "sub": {"type": "subworkflow", "input": {"workflow_id": "inner"}, "retry": retry, "depends_on": ["ask"]},
        "quick": {"type": "subworkflow", "input": {"workflow_id": "leaf"}, "timeout_sec": 3, "on_error": "late"},
        "late": {"type": "transform", "input": {"late": true}},
    })
}

fn inner() -> Value {
    json!({
        "sub": {"type": "subworkflow", "input": {"workflow_id": "leaf"}},
        "end": {"type": "transform", "input": {"leaf": "${steps.sub.output}"}, "depends_on": ["sub"]},
    })
}

/// Results of one run that come all at once.
fn crowd() -> Value {
    let retry = json!({"max_retries": 2, "initial_backoff_sec": 0.1, "multiplier": 1, "max_backoff_sec": 1});
    let step = json!({"type": "worker", "topic": TOPIC, "retry": retry});
    json!({"one": step, "two": step, "three": step, "four": step, "five": step, "six": step})
}

/// Too many steps at once for a first turn: the engine takes it.
fn wide() -> Value {
    let mut steps = json!({"work": {"type": "worker", "topic": TOPIC}});
    for number in 0..40 {
        steps[format!("note{number}")] = json!({"type": "transform", "input": {"n": number}});
    }
    steps
}
