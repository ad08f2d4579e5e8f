//! Events that are sent to runs: before, during and after the wait, twice, through cancels, reruns and `kill -9`.

use serde_json::{Value, json};

use super::commands::Shell;
use super::server::{Caller, Server};

fn steps() -> Value {
    json!({
        "first": {"type": "worker", "topic": "work"},
        "wait": {"type": "wait_event", "depends_on": ["first"], "timeout_sec": 600,
            "event": {"name": "paid", "match": "event.data.amount >= 10"}},
        "then": {"type": "transform", "depends_on": ["wait"], "input": {"got": "${steps.wait.output.amount}"}},
    })
}

async fn start(caller: &Caller) -> String {
    caller.workflow("order", steps()).await;
    caller.start("order", None, &json!({})).await.expect(200).text("run_id")
}

async fn do_first(caller: &Caller) {
    let job = caller.claim("w", "work", 1).await.remove(0);
    caller.complete(&job, &json!({})).await.expect(200);
}

async fn send(caller: &Caller, run: &str, id: &str, amount: u32) -> Value {
    let event = json!({"name": "paid", "data": {"amount": amount}, "event_id": id});
    caller.post(&format!("/workflow-runs/{run}/events"), event).await.expect(200).body
}

#[tokio::test]
async fn events_before_and_during_the_wait_are_taken_once_and_after_the_end_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    let run = start(&caller).await;
    let path = format!("/workflow-runs/{run}/events");
    assert_eq!(send(&caller, &run, "early", 1).await, json!({"event_id": "early", "replayed": false}));
    assert_eq!(send(&caller, &run, "early", 1).await, json!({"event_id": "early", "replayed": true}));
    let other = json!({"name": "paid", "data": {"amount": 2}, "event_id": "early"});
    assert_eq!(caller.post(&path, other).await.expect(409).text("code"), "conflict");
    do_first(&caller).await;
    caller.when(&run, |run| run["steps"]["wait"]["waiting_for_event"]["name"] == "paid").await;
    let why = caller.get(&format!("/why?run_id={run}")).await.expect(200);
    assert_eq!(why.body["causes"][0]["code"], "event_awaited", "{}", why.body);
    let unnamed = caller.post(&path, json!({"name": "paid", "data": {"amount": 3}})).await.expect(200);
    assert!(unnamed.text("event_id").starts_with("e-"));
    send(&caller, &run, "enough", 12).await;
    let ended = caller.ended(&run).await;
    assert_eq!((&ended["status"], &ended["output"]), (&json!("succeeded"), &json!({"then": {"got": 12}})));
    assert_eq!(ended["steps"]["wait"]["waiting_for_event"], Value::Null);
    assert_eq!(send(&caller, &run, "enough", 12).await["replayed"], true, "also after the end");
    let late = caller.post(&path, json!({"name": "paid", "data": {"amount": 20}})).await.expect(409);
    assert_eq!(late.text("code"), "conflict");
    let unknown = caller.post(&path, json!({"name": "payed"})).await.expect(409);
    assert!(unknown.text("error").contains("its steps wait for paid"), "{}", unknown.body);
}

#[tokio::test]
async fn a_cancelled_wait_ends_and_a_rerun_waits_for_events_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    let run = start(&caller).await;
    do_first(&caller).await;
    send(&caller, &run, "kept", 1).await;
    caller.post(&format!("/workflow-runs/{run}/cancel"), Value::Null).await.expect(204);
    assert_eq!(caller.ended(&run).await["steps"]["wait"]["status"], "cancelled");
    let rerun = caller.post(&format!("/workflow-runs/{run}/rerun"), json!({"from_step": "wait"})).await;
    let rerun = rerun.expect(200).text("run_id");
    caller.when(&rerun, |run| run["steps"]["wait"]["waiting_for_event"]["name"] == "paid").await;
    assert_eq!(send(&caller, &rerun, "kept", 15).await["replayed"], false, "its ids are its own");
    assert_eq!(caller.ended(&rerun).await["output"], json!({"then": {"got": 15}}));
}

#[tokio::test]
async fn acknowledged_events_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    let run = start(&server.caller("acme")).await;
    for (id, amount) in [("small", 5), ("enough", 11)] {
        send(&server.caller("acme"), &run, id, amount).await;
        server.kill();
        server = Server::start(folder.path());
    }
    let caller = server.caller("acme");
    assert_eq!(send(&caller, &run, "enough", 11).await["replayed"], true);
    do_first(&caller).await;
    assert_eq!(caller.ended(&run).await["output"], json!({"then": {"got": 11}}));
}

#[tokio::test]
async fn what_exceeds_the_bounds_of_events_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    let run = start(&caller).await;
    let path = format!("/workflow-runs/{run}/events");
    let large = json!({"name": "paid", "data": "x".repeat(65 << 10)});
    let refused = caller.post(&path, large).await.expect(400);
    assert!(refused.text("error").starts_with("data has "), "{}", refused.body);
    for number in 0..100 {
        send(&caller, &run, &number.to_string(), 1).await;
    }
    let full = caller.post(&path, json!({"name": "paid"})).await.expect(409);
    assert_eq!(full.text("code"), "quota_reached");
}

#[tokio::test]
async fn the_command_sends_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    let run = start(&caller).await;
    let send = ["run", "send-event", &run, "paid", "--data", r#"{"amount": 30}"#, "--event-id", "p-1"];
    for _ in 0..2 {
        assert_eq!(Shell { server: &server, tenant: "acme" }.print(&send), "p-1");
    }
    do_first(&caller).await;
    assert_eq!(caller.ended(&run).await["output"], json!({"then": {"got": 30}}));
}

/// A run for each caller that waits for what is sent to this order.
pub(crate) async fn wait_for_order(callers: &[Caller], order: u32) -> Vec<String> {
    let event = json!({"name": "paid", "key": "order-${input.order}"});
    callers[0]
        .workflow("keyed", json!({"wait": {"type": "wait_event", "event": event, "timeout_sec": 600}}))
        .await;
    let mut runs = Vec::new();
    for caller in callers {
        let run = caller.start("keyed", None, &json!({"order": order})).await.expect(200).text("run_id");
        caller.when(&run, |run| run["steps"]["wait"]["waiting_for_event"]["name"] == "paid").await;
        runs.push(run);
    }
    runs
}

pub(crate) async fn send_to_order(caller: &Caller, order: u32, id: &str) -> Value {
    let event = json!({"name": "paid", "key": format!("order-{order}"), "data": {"by": id}, "event_id": id});
    caller.post("/events", event).await.expect(200).body
}

#[tokio::test]
async fn an_event_that_is_sent_to_a_key_reaches_those_who_wait_or_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    let caller = server.caller("acme");
    let kept = send_to_order(&caller, 17, "early").await;
    assert_eq!((&kept["kept"], &kept["runs"]), (&json!(true), &json!(0)));
    server.kill();
    server = Server::start(folder.path());
    let caller = server.caller("acme");
    assert_eq!(send_to_order(&caller, 17, "early").await["replayed"], true, "also after a kill");
    let event = json!({"name": "paid", "key": "order-17"});
    caller.workflow("first", json!({"wait": {"type": "wait_event", "event": event}})).await;
    let run = caller.start("first", None, &json!({})).await.expect(200).text("run_id");
    assert_eq!(caller.ended(&run).await["output"], json!({"wait": {"by": "early"}}));
    let runs = wait_for_order(&[caller.clone(), caller.clone()], 17).await;
    let sent = send_to_order(&caller, 17, "late").await;
    assert_eq!((&sent["runs"], &sent["kept"]), (&json!(2), &json!(false)));
    for run in runs {
        assert_eq!(caller.ended(&run).await["output"], json!({"wait": {"by": "late"}}));
    }
    let shell = Shell { server: &server, tenant: "acme" };
    let command = ["event", "send", "paid", "--key", "order-18", "--event-id", "e-18"];
    assert_eq!(shell.json(&command)["kept"], true);
    assert_eq!(shell.print(&command), "e-18");
}
