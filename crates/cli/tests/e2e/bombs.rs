//! Small inputs that would cost much: they fail by themselves, and the server and other tenants continue.

use serde_json::{Value, json};

use super::machines::Machines;
use super::server::{Caller, Server};

/// Peak memory of the process that a bomb may cause.
const PEAK_KIB_MAX: u64 = 200 * 1024;

/// Each level has the next one twice: 2^25 ways lead to the last.
fn schema_bomb() -> Value {
    let level = |at| (format!("p{at}"), json!({"anyOf": [next(at), next(at)]}));
    let mut parts: serde_json::Map<_, _> = (0..25).map(level).collect();
    parts.insert("p25".to_owned(), json!({"type": "integer"}));
    json!({"$defs": parts, "$ref": "#/$defs/p0"})
}

fn next(level: u32) -> Value {
    json!({"$ref": format!("#/$defs/p{}", level + 1)})
}

/// Each level of the value doubles the ways.
fn recursive_schema_bomb() -> Value {
    json!({"properties": {"next": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, "n": {"type": "integer"}}})
}

/// Short patterns that are megabytes each when compiled.
fn pattern_bomb() -> Value {
    let patterns: serde_json::Map<_, _> =
        (0..1_000).map(|at| (format!("(a{{1,300}}){{1,300}}{at}"), json!(true))).collect();
    json!({"patternProperties": patterns})
}

fn nested(levels: u32) -> Value {
    (0..levels).fold(json!({"n": "x"}), |inner, _| json!({"next": inner}))
}

fn peak_kib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn save(caller: &Caller, id: &str, steps: Value, input_schema: Value) -> u16 {
    let document = json!({"id": id, "name": id, "steps": steps, "input_schema": input_schema});
    caller.post("/workflows", document).await.status.as_u16()
}

fn worker(more: &Value) -> Value {
    let mut step = json!({"type": "worker", "topic": "work"});
    step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"work": step})
}

async fn expect_too_large(caller: &Caller, workflow: &str, input: &Value) {
    let run = caller.start(workflow, None, input).await.expect(200).text("run_id");
    let run = caller.ended(&run).await;
    assert_eq!((&run["status"], &run["error"]["code"]), (&json!("failed"), &json!("run_too_large")), "{run}");
}

/// A tenant with small bounds has them enforced: for what a turn renders, for what a run holds, and for its timeline.
async fn bounds_of_the_tenant_apply(caller: &Caller) {
    let bound = async |limits: Value| {
        let body = json!({"scope": "org", "scope_id": caller.tenant, "data": {"limits": limits}});
        caller.try_send(reqwest::Method::PUT, "/config", None, &body).await.expect("the server answers")
    };
    bound(json!({"max_run_bytes": 65_535})).await.expect(400);
    bound(json!({"max_turn_bytes": 1_073_741_825u64})).await.expect(400);
    caller.workflow("pass", worker(&json!({}))).await;
    let medium = json!({"big": "x".repeat(200_000)});

    bound(json!({"max_run_bytes": 262_144})).await.expect(204);
    expect_too_large(caller, "pass", &medium).await;
    bound(json!({"max_turn_bytes": 131_072})).await.expect(204);
    expect_too_large(caller, "pass", &medium).await;
    // A change applies from the next turn on, also of runs that have begun.
    bound(json!({})).await.expect(204);
    let run = caller.start("pass", None, &medium).await.expect(200).text("run_id");
    let job = caller.claim("w", "work", 1).await.remove(0);
    bound(json!({"max_run_bytes": 524_288})).await.expect(204);
    caller.complete(&job, &medium).await.expect(200);
    let run = caller.ended(&run).await;
    assert_eq!(run["error"]["code"], "run_too_large", "{run}");

    // Attempts with small values and long messages: the timeline is what grows.
    bound(json!({"max_run_bytes": 65_536})).await.expect(204);
    let retry = json!({"max_retries": 1_000, "initial_backoff_sec": 0, "max_backoff_sec": 0});
    caller.workflow("noisy", worker(&json!({"retry": retry}))).await;
    let run = caller.start("noisy", None, &json!({})).await.expect(200).text("run_id");
    let claim = json!({"topics": ["work"], "max_jobs": 1, "wait_ms": 1_000});
    while caller.run(&run).await["status"] == "running" {
        let jobs = caller.post("/workers/w/claim", claim.clone()).await.expect(200).body["jobs"].clone();
        for job in jobs.as_array().unwrap() {
            let failed = json!({"fence": job["fence"], "error": "x".repeat(4_000), "retryable": true});
            caller.post(&format!("/jobs/{}/fail", job["job_id"].as_str().unwrap()), failed).await.expect(200);
        }
    }
    assert_eq!(caller.run(&run).await["error"]["code"], "run_too_large");
    bound(json!({})).await.expect(204);
}

/// Every bomb by one tenant, while another one works.
async fn throw_all(server: &Server) {
    let (caller, other) = (server.caller("bomber"), server.caller("neighbour"));
    other.workflow("job", worker(&json!({}))).await;

    // Schemas: refused when saved, or an error of the start or the step that needs the check.
    assert_eq!(save(&caller, "bomb", worker(&json!({})), schema_bomb()).await, 400);
    assert_eq!(save(&caller, "bomb", worker(&json!({})), pattern_bomb()).await, 400);
    let step = worker(&json!({"output_schema": schema_bomb()}));
    assert_eq!(save(&caller, "bomb", step, json!(true)).await, 400);
    assert_eq!(save(&caller, "input", worker(&json!({})), recursive_schema_bomb()).await, 201);
    assert_eq!(caller.start("input", None, &nested(40)).await.status, 400);
    let step = worker(&json!({"output_schema": recursive_schema_bomb()}));
    assert_eq!(save(&caller, "output", step, json!(true)).await, 201);
    let run = caller.start("output", None, &json!({})).await.expect(200).text("run_id");
    let job = caller.claim("w", "work", 1).await.remove(0);
    caller.complete(&job, &nested(40)).await.expect(200);
    let run = caller.ended(&run).await;
    assert_eq!(run["error"]["code"], "output_invalid", "{run}");

    // Renders: many items or steps with a large input each, at once and behind a delay.
    let large = json!({"big": "x".repeat(1 << 20), "items": (0..9_000).collect::<Vec<u32>>()});
    let each = worker(&json!({"for_each": "input.items", "input": {"big": "${input.big}"}}));
    caller.workflow("items", each.clone()).await;
    expect_too_large(&caller, "items", &large).await;
    let mut later = each;
    later["wait"] = json!({"type": "delay", "delay_sec": 0.1});
    later["work"]["depends_on"] = json!(["wait"]);
    caller.workflow("later", later).await;
    expect_too_large(&caller, "later", &large).await;
    let step = |at| (format!("s{at}"), worker(&json!({"input": {"big": "${input.big}"}}))["work"].clone());
    caller.workflow("steps", json!((0..1_000).map(step).collect::<serde_json::Map<_, _>>())).await;
    expect_too_large(&caller, "steps", &large).await;

    bounds_of_the_tenant_apply(&server.caller("bounded")).await;
    other.start("job", None, &json!({})).await.expect(200);
    let peak = peak_kib(server);
    assert!(peak <= PEAK_KIB_MAX, "{peak} KiB");
}

#[tokio::test]
async fn bombs_of_one_tenant_cost_little_on_one_machine() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    throw_all(&server).await;
    // What is kept of them does no harm at a restart.
    drop(server);
    let server = Server::start(folder.path());
    server.caller("neighbour").start("job", None, &json!({})).await.expect(200);
    assert!(peak_kib(&server) <= PEAK_KIB_MAX);
}

#[tokio::test]
async fn bombs_of_one_tenant_cost_little_on_many() {
    let machines = Machines::start(1).await;
    throw_all(&machines.replicas[0]).await;
    machines.replica().caller("neighbour").start("job", None, &json!({})).await.expect(200);
}
