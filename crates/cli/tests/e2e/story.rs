//! A workflow with every kind of step ends as defined, and its timeline has the events in order.

use serde_json::{Value, json};

use super::server::{Caller, Server};

const ITEMS: usize = 1_000;
const WORKERS: usize = 8;

fn steps() -> Value {
    let retry =
        json!({"max_retries": 3, "initial_backoff_sec": 0.01, "multiplier": 1, "max_backoff_sec": 0.05});
    json!({
        "gate": {"type": "approval", "input": {"question": "may ${input.who} continue?"}},
        "pause": {"type": "delay", "delay_sec": 0.2, "depends_on": ["gate"]},
        "each": {
            "type": "worker", "topic": "square", "depends_on": ["pause"], "for_each": "input.numbers",
            "max_parallel": 64, "input": {"n": "${item}"},
        },
        "flaky": {"type": "worker", "topic": "flaky", "depends_on": ["pause"], "retry": retry},
        "broken": {"type": "worker", "topic": "broken", "depends_on": ["flaky"], "on_error": "repair"},
        "repair": {"type": "worker", "topic": "repair", "input": {"why": "${error.message}"}},
        "child": {
            "type": "subworkflow", "depends_on": ["pause"],
            "input": {"workflow_id": "double", "input_mapping": {"n": "${size(input.numbers)}"}},
        },
        "signal": {
            "type": "wait_event", "depends_on": ["pause"], "event": {"name": "go", "match": "event.data.n == 7"},
        },
        "sum": {
            "type": "transform", "depends_on": ["each", "broken", "child", "signal"],
            "input": {"count": "${size(steps.each.output)}", "last": "${steps.each.output[999]}",
                      "repaired": "${steps.repair.output}", "child": "${steps.child.output.n}",
                      "signal": "${steps.signal.output.n}"},
        },
        "route": {"type": "switch", "depends_on": ["sum"], "condition": "steps.sum.output.count",
                  "input": {"cases": {"1000": "tell", "0": "empty"}}},
        "empty": {"type": "approval"},
        "tell": {"type": "notify", "condition": "steps.sum.output.count == 1000",
                 "input": {"message": "${input.who} is done"}},
    })
}

/// Completes or fails a job, by its topic.
async fn answer(caller: &Caller, job: &Value) {
    let id = job["job_id"].as_str().unwrap();
    match job["topic"].as_str().unwrap() {
        "square" => {
            let n = job["input"]["n"].as_u64().unwrap();
            caller.complete(job, &json!(n * n)).await.expect(200);
        }
        "flaky" if job["attempt"].as_u64().unwrap() < 3 => {
            let failure = json!({"fence": job["fence"], "error": "not yet", "retryable": true});
            caller.post(&format!("/jobs/{id}/fail"), failure).await.expect(200);
        }
        "broken" => {
            let failure = json!({"fence": job["fence"], "error": "it broke", "retryable": false});
            caller.post(&format!("/jobs/{id}/fail"), failure).await.expect(200);
        }
        "repair" => {
            assert_eq!(job["input"]["error"]["step_id"], "broken");
            caller.complete(job, &json!({"because": job["input"]["why"]})).await.expect(200);
        }
        _ => {
            caller.complete(job, &json!("ok")).await.expect(200);
        }
    }
}

async fn work(caller: Caller, number: usize) {
    let claim = json!({"topics": ["square", "flaky", "broken", "repair"], "max_jobs": 16, "wait_ms": 5_000});
    loop {
        let answer_to_claim =
            caller.post(&format!("/workers/w-{number}/claim"), claim.clone()).await.expect(200);
        for job in answer_to_claim.body["jobs"].as_array().unwrap() {
            answer(&caller, job).await;
        }
    }
}

#[tokio::test]
async fn a_workflow_with_every_kind_of_step_ends_as_defined() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    caller
        .workflow("double", json!({"n": {"type": "transform", "input": {"double": "${input.n * 2}"}}}))
        .await;
    caller.workflow("story", steps()).await;
    let numbers: Vec<usize> = (0..ITEMS).collect();
    let run = caller
        .start("story", None, &json!({"who": "Ada", "numbers": numbers}))
        .await
        .expect(200)
        .text("run_id");
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..WORKERS {
        workers.spawn(work(caller.clone(), number));
    }
    caller.when(&run, |run| run["status"] == "waiting").await;
    let event = json!({"name": "go", "data": {"n": 7}});
    caller.post(&format!("/workflow-runs/{run}/events"), event).await.expect(200);
    let open = caller.get("/approvals").await.expect(200);
    let approval = &open.body["items"][0];
    assert_eq!(
        (&approval["run_id"], &approval["input"]["question"]),
        (&json!(run), &json!("may Ada continue?"))
    );
    let job = approval["job_id"].as_str().unwrap();
    assert_eq!(
        caller.post(&format!("/approvals/{job}/approve"), json!({})).await.expect(200).text("job_id"),
        job
    );
    caller.post(&format!("/approvals/{job}/approve"), Value::Null).await.expect(200);
    caller.post(&format!("/approvals/{job}/reject"), Value::Null).await.expect(409);

    let ended = caller.ended(&run).await;
    workers.shutdown().await;
    assert_eq!(ended["status"], "succeeded", "{}", ended["error"]);
    assert_eq!(
        ended["output"],
        json!({"repair": {"because": "it broke"}, "tell": {"message": "Ada is done"}})
    );
    let sum = json!({"count": 1_000, "last": 998_001, "repaired": {"because": "it broke"}, "child": {"double": 2_000},
        "signal": 7});
    assert_eq!(ended["steps"]["sum"]["output"], sum);
    assert_eq!(ended["steps"]["flaky"]["attempts"], 3);
    assert_eq!(
        (&ended["steps"]["route"]["output"], &ended["steps"]["empty"]["status"]),
        (&json!("tell"), &json!("skipped"))
    );
    assert_eq!(
        (&ended["steps"]["broken"]["status"], &ended["steps"]["repair"]["status"]),
        (&json!("failed"), &json!("succeeded"))
    );
    assert_eq!(ended["steps"]["each"]["children"].as_object().unwrap().len(), ITEMS);
    check_timeline(&caller, &run).await;
}

async fn check_timeline(caller: &Caller, run: &str) {
    let mut events: Vec<Value> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = caller.get(&format!("/workflow-runs/{run}/timeline?limit=500{cursor}")).await.expect(200);
        events.extend(page.body["items"].as_array().unwrap().iter().cloned());
        match page.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(
        numbers,
        (1..=events.len() as u64).collect::<Vec<_>>(),
        "the numbers have a gap or a repetition"
    );
    let place = |kind: &str, step: &str| {
        let is_it = |event: &Value| event["type"] == kind && (step.is_empty() || event["step_id"] == step);
        events.iter().position(is_it).unwrap_or_else(|| panic!("no {kind} of {step:?} in the timeline"))
    };
    let story = [
        ("step_waiting", "gate"),
        ("step_approved", "gate"),
        ("step_delay_started", "pause"),
        ("step_delay_completed", "pause"),
        ("step_subworkflow_started", "child"),
        ("step_dispatched", "flaky"),
        ("step_retry_scheduled", "flaky"),
        ("step_completed", "flaky"),
        ("step_failed", "broken"),
        ("step_error_redirect", "broken"),
        ("step_completed", "repair"),
        ("step_transform_completed", "sum"),
        ("step_switch_evaluated", "route"),
        ("step_skipped", "empty"),
        ("step_event_emitted", "tell"),
    ];
    let places: Vec<usize> = story.iter().map(|(kind, step)| place(kind, step)).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(place("step_event_received", "signal") < place("step_transform_completed", "sum"));
    assert!(place("step_subworkflow_completed", "child") < place("step_transform_completed", "sum"));
    let retry = &events[place("step_retry_scheduled", "flaky")]["data"];
    assert!(retry["seed"].is_u64() && retry["delay_ms"].is_u64(), "{retry}");
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["status"]), (&json!("run_status"), &json!("succeeded")));
}
