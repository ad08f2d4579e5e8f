//! `limits explain` before a start, the answer to the start and `why` say the same, for each policy.

use serde_json::{Value, json};

use super::{put, server, start, text};
use crate::server::Server;

/// What limits decide about the starts of one workflow.
struct Case {
    policy: &'static str,
    limit: Value,
    /// Starts that come before it.
    before: u32,
    is_paused: bool,
    status: u16,
    /// What all of them say.
    says: &'static str,
}

fn case(policy: &'static str, limit: Value, (before, status): (u32, u16), says: &'static str) -> Case {
    Case { policy, limit, before, is_paused: false, status, says }
}

fn cases() -> Vec<Case> {
    let full = |on_full: &str| json!({"max_runs": 1, "on_full": on_full});
    let rate = |on_full: &str| json!({"rate": {"starts": 1, "period_sec": 3_600}, "on_full": on_full});
    let queue_of_one = json!({"max_runs": 1, "on_full": "queue", "queue": {"max": 1}});
    let debounce = json!({"on_full": "debounce", "quiet_sec": 600});
    let paused = |case| Case { is_paused: true, ..case };
    vec![
        case("reject", full("reject"), (1, 429), "Rejected: limit `team` is full (# of #)"),
        case("queue", full("queue"), (1, 202), "Queued: limit `team` is full (# of #)"),
        case("queue full", queue_of_one, (2, 429), "Rejected: # run waits for limit `team`"),
        case("replace_queued", full("replace_queued"), (1, 202), "Queued: limit `team` is full (# of #)"),
        case("debounce", debounce, (0, 202), "Debounced: the run stands for # start in limit `team`"),
        case("rate, reject", rate("reject"), (1, 429), "Rejected: limit `team` is at its rate"),
        case("rate, queue", rate("queue"), (1, 202), "Queued: limit `team` is at its rate"),
        paused(case("pause, reject", full("reject"), (0, 429), "Rejected: limit `team` is paused")),
        paused(case("pause, queue", full("queue"), (0, 202), "Blocked: limit `team` is paused")),
    ]
}

/// Without what grows between two answers, and what answers to starts are made without looking for: the holder, the place
/// and who has paused it.
fn core(sentence: &str) -> String {
    let is_of_one = |part: &&str| !part.starts_with("Held by run ") && !part.contains(" in the queue");
    let mut core = sentence.split(". ").filter(is_of_one).collect::<Vec<_>>().join(". ");
    if let Some((before, rest)) = core.split_once(" was paused by ")
        && let Some((_, after)) = rest.split_once(" ago")
    {
        core = format!("{before} is paused{after}");
    }
    let mut words = String::new();
    for character in core.trim_end_matches('.').chars() {
        if !character.is_ascii_digit() {
            words.push(character);
        } else if !words.ends_with('#') {
            words.push('#');
        }
    }
    words
}

async fn why(server: &Server, query: &str) -> Value {
    server.get(&format!("/api/v1/why?{query}")).send().await.ok(200)["causes"][0].clone()
}

/// Makes the limit, and what comes before the start.
async fn prepare(server: &Server, case: &Case) {
    put(server, "team", case.limit.clone()).await.ok(200);
    for number in 0..case.before {
        let status = start(server, &json!({"n": number})).send().await.status;
        assert!(matches!(status, 200 | 202), "{}: {status}", case.policy);
    }
    if case.is_paused {
        server.post("/api/v1/limits/team/pause").json(&json!({})).send().await.ok(200);
    }
}

#[tokio::test]
async fn explain_the_answer_and_why_say_the_same_for_each_policy() {
    for case in cases() {
        let server = server().await;
        prepare(&server, &case).await;
        let asked = json!({"workflow": "wf", "input": {"n": 9}});
        let explained = server.post("/api/v1/limits/explain").json(&asked).send().await.ok(200);
        let expected = core(&text(&explained["detail"]));
        assert!(expected.starts_with(case.says), "{}: {expected}", case.policy);
        let before = why(&server, "workflow_id=wf").await;
        assert_eq!(core(&text(&before["detail"])), expected, "{}: why of the workflow", case.policy);

        let answer = start(&server, &json!({"n": 9})).send().await;
        assert_eq!(answer.status, case.status, "{}", case.policy);
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(core(&text(&answer["detail"])), expected, "{}: the answer", case.policy);
        assert_eq!(before["code"], answer["blocked_by"]["reason"], "{}: {before}", case.policy);
        if case.status == 202 {
            let run = text(&answer["run_id"]);
            let of_run = why(&server, &format!("run_id={run}")).await;
            assert_eq!(core(&text(&of_run["detail"])), expected, "{}: why of the run", case.policy);
            assert_eq!(of_run["code"], answer["blocked_by"]["reason"], "{}", case.policy);
            assert_eq!(of_run["position"], answer["position"], "{}", case.policy);
            let shown = text(&server.view(&run).await["waiting_for"]["detail"]);
            assert_eq!(core(&shown), expected, "{}: the run", case.policy);
            assert!(case.is_paused || shown == text(&answer["detail"]), "{}: {shown}", case.policy);
        }
    }
}

/// A start that joins, or replaces the run that holds the slot, does not wait.
#[tokio::test]
async fn a_start_that_joins_or_replaces_is_explained_by_what_is_full() {
    for (on_full, outcome) in [("join", "join"), ("replace_running", "replace_running")] {
        let server = server().await;
        put(&server, "team", json!({"max_runs": 1, "on_full": on_full})).await.ok(200);
        let first = text(&start(&server, &json!({"n": 1})).send().await.ok(200)["run_id"]);
        let asked = json!({"workflow": "wf", "input": {"n": 2}});
        let explained = server.post("/api/v1/limits/explain").json(&asked).send().await.ok(200);
        assert_eq!(explained["outcome"], outcome);
        let said = text(&why(&server, "workflow_id=wf").await["detail"]);
        assert_eq!(core(&said), core(&text(&explained["detail"])), "{on_full}");
        assert!(said.contains(&format!("Held by run `{first}`")), "{said}");
    }
}

#[tokio::test]
async fn why_of_a_workflow_names_limits_that_need_the_input() {
    let server = server().await;
    put(&server, "per-repo", json!({"max_runs": 1, "key": "input.repo"})).await.ok(200);
    let answer = server.get("/api/v1/why?workflow_id=wf").send().await.ok(200);
    assert_eq!(answer["state"], "free", "{answer}");
    let codes: Vec<_> =
        answer["causes"].as_array().unwrap().iter().map(|cause| text(&cause["code"])).collect();
    assert_eq!(codes, ["free", "depends_on_input"]);
    let said = text(&answer["causes"][1]["detail"]);
    assert!(said.contains("limit `per-repo`") && said.contains("interlock limits explain"), "{said}");
}

#[tokio::test]
async fn why_of_a_workflow_says_that_it_is_paused() {
    let server = server().await;
    server.post("/api/v1/workflows/wf/pause").json(&json!({})).send().await.ok(200);
    let cause = why(&server, "workflow_id=wf").await;
    assert_eq!(cause["code"], "blocked", "{cause}");
    let refused = start(&server, &json!({})).send().await.problem(429, "limit_reached");
    assert_eq!(core(&text(&cause["detail"])), core(&text(&refused["detail"])));
    assert!(text(&cause["detail"]).contains(" was paused by "), "{cause}");
}

#[tokio::test]
async fn a_debounced_run_cannot_be_moved_and_its_answer_says_why() {
    let server = server().await;
    put(&server, "team", json!({"on_full": "debounce", "quiet_sec": 600})).await.ok(200);
    let run = text(
        &serde_json::from_slice::<Value>(&start(&server, &json!({})).send().await.body).unwrap()["run_id"],
    );
    let path = format!("/api/v1/workflow-runs/{run}/move");
    let refused = server.post(&path).json(&json!({"to": "front"})).send().await.problem(409, "conflict");
    let said = text(&refused["error"]);
    assert!(said.contains("it waits for newer starts until ") && !said.contains("it is queued"), "{said}");
}
