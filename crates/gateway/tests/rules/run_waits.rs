//! Answers that wait for the end of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::verbs::{Admit, Answer as StoreAnswer, Request};
use interlock_backend::{Backend, StoreError};
use interlock_control::settings;
use interlock_model::admission::StartOutcome;
use interlock_poll::{LIMIT, until};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::client::Answer;
use crate::server::{Server, empty_store, one_step, patient};

const STARTS: &str = "/api/v1/workflows/wf/runs";

fn waiting_start(server: &Server, wait: u64) -> JoinHandle<Answer> {
    let start = server.post(STARTS).header("prefer", &format!("wait={wait}")).json(&json!({"n": 1}));
    tokio::spawn(start.send())
}

async fn server_with_workflow() -> Server {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    server
}

#[tokio::test]
async fn a_start_that_waits_is_answered_with_the_ended_run() {
    let server = server_with_workflow().await;
    let answer = waiting_start(&server, 60);
    let job = server.claim_one("w").await;
    server.report(&job, "complete", json!({"output": {"n": 2}})).await.ok(200);
    let answer = answer.await.unwrap();
    let started = answer.ok(200);
    assert_eq!(answer.header("preference-applied"), Some("wait=60"));
    assert!(answer.header("ratelimit").is_some());
    assert_eq!((&started["status"], &started["replayed"]), (&json!("succeeded"), &json!(false)));
    assert_eq!(started["run"], server.view(started["run_id"].as_str().unwrap()).await);
    assert_eq!(started["run"]["output"], json!({"build": {"n": 2}}));
}

#[tokio::test]
async fn a_start_whose_wait_is_over_is_202_with_the_status_of_the_run() {
    let server = server_with_workflow().await;
    let answer = waiting_start(&server, 0).await.unwrap();
    let started = answer.ok(202);
    assert_eq!(answer.header("preference-applied"), Some("wait=0"));
    assert!(started.get("run").is_none(), "{started}");
    let plain = server.post(STARTS).json(&json!({"n": 1})).send().await;
    assert_eq!((plain.status, plain.header("preference-applied")), (200, None));
    for bad in ["wait=61", "wait=x", "wait"] {
        let refused = server.post(STARTS).header("prefer", bad).json(&json!({})).send().await;
        let problem = refused.problem(400, "invalid_request");
        assert!(problem["error"].as_str().unwrap().contains("wait"), "{problem}");
    }
    let runs = server.get("/api/v1/workflow-runs").send().await.ok(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 2, "a refused start starts nothing");
}

#[tokio::test]
async fn a_replayed_start_waits_for_the_run_of_its_key() {
    let server = server_with_workflow().await;
    let start = || server.post(STARTS).header("idempotency-key", "k").json(&json!({"n": 1}));
    let first = start().send().await.ok(200);
    let second = tokio::spawn(start().header("prefer", "wait=60").send());
    let job = server.claim_one("w").await;
    server.report(&job, "fail", json!({"error": "no", "retryable": false})).await.ok(200);
    let second = second.await.unwrap();
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    let second = second.ok(200);
    assert_eq!((&second["status"], &second["replayed"]), (&json!("failed"), &json!(true)));
    assert_eq!((&second["run_id"], &second["run"]["id"]), (&first["run_id"], &first["run_id"]));
}

#[tokio::test]
async fn a_queued_start_that_waits_keeps_its_plain_answer_until_its_run_has_ended() {
    let server = server_with_workflow().await;
    let limit = json!({"max_runs": 1, "on_full": "queue", "queue": {"max_wait_sec": 600}});
    server.put("/api/v1/limits/one").json(&limit).send().await.ok(200);
    server.run("wf", &json!({"n": 1})).await;
    let queued = waiting_start(&server, 0).await.unwrap();
    let body = queued.ok(202);
    assert_eq!((&body["status"], &body["position"]), (&json!("queued"), &json!(1)));
    assert_eq!(queued.header("preference-applied"), Some("wait=0"));
}

#[tokio::test]
async fn a_rerun_waits_too() {
    let server = server_with_workflow().await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let job = server.claim_one("w").await;
    server.report(&job, "complete", json!({"output": 1})).await.ok(200);
    server.ended(&run).await;
    let rerun = server.post(&format!("/api/v1/workflow-runs/{run}/rerun")).header("prefer", "wait=60");
    let rerun = tokio::spawn(rerun.send());
    let job = server.claim_one("w").await;
    server.report(&job, "complete", json!({"output": 2})).await.ok(200);
    assert_eq!(rerun.await.unwrap().ok(200)["run"]["rerun_of"], json!(run));
}

#[tokio::test]
async fn a_read_waits_for_the_end_of_its_run() {
    let server = server_with_workflow().await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let path = |wait: &str| format!("/api/v1/workflow-runs/{run}?wait_ms={wait}");
    let now = server.get(&path("0")).send().await.ok(202);
    assert_eq!(now["id"], json!(run));
    let ended = tokio::spawn(server.get(&path("60000")).send());
    let job = server.claim_one("w").await;
    server.report(&job, "complete", json!({"output": 1})).await.ok(200);
    let ended = ended.await.unwrap().ok(200);
    assert_eq!(ended["status"], json!("succeeded"));
    assert_eq!(server.get(&path("0")).send().await.ok(200), ended, "one that has ended is 200 at once");
    for bad in ["60001", "-1", "x", ""] {
        server.get(&path(bad)).send().await.problem(400, "invalid_request");
    }
    let absent = "/api/v1/workflow-runs/01234567-89ab-7def-8123-456789abcdef?wait_ms=60000";
    server.get(absent).send().await.problem(404, "not_found");
}

#[tokio::test]
async fn a_wait_ends_when_the_run_is_deleted_and_when_the_gateway_closes() {
    let mut server = server_with_workflow().await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let path = format!("/api/v1/workflow-runs/{run}?wait_ms=60000");
    let waiting = tokio::spawn(server.get(&path).send());
    until("the read waits", async || server.control.run_ends.waiters() == 1).await;
    server.delete(&format!("/api/v1/workflow-runs/{run}")).send().await.ok(204);
    waiting.await.unwrap().problem(404, "not_found");
    let waiting = waiting_start(&server, 60);
    until("the start waits", async || server.control.run_ends.waiters() == 1).await;
    server.shutdown.cancel();
    waiting.await.unwrap().ok(202);
    tokio::time::timeout(LIMIT, &mut server.serving).await.expect("the gateway closes").unwrap();
}

/// Counts the reads of what a wait reads.
struct CountingStore {
    backend: Arc<dyn Backend>,
    polls: AtomicUsize,
    runs_read: AtomicUsize,
}

impl CountingStore {
    fn new() -> Arc<Self> {
        let (polls, runs_read) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { backend: empty_store(), polls, runs_read })
    }
}

#[async_trait]
impl Backend for CountingStore {
    async fn ask(&self, request: Request) -> Result<StoreAnswer, StoreError> {
        if matches!(request, Request::ReadRunStatuses(_)) {
            self.polls.fetch_add(1, Ordering::Relaxed);
        } else if matches!(request, Request::ReadRun(_)) {
            self.runs_read.fetch_add(1, Ordering::Relaxed);
        }
        self.backend.ask(request).await
    }

    fn refusal(&self, start: &Admit) -> Option<StartOutcome> {
        self.backend.refusal(start)
    }

    fn commands_sent(&self) -> u64 {
        self.backend.commands_sent()
    }
}

/// The reads of the store while `waiters` requests wait for one run, from the moment when all wait until it has ended.
async fn reads_of(waiters: usize) -> (usize, usize) {
    let store = CountingStore::new();
    let server = Server::on(store.clone(), patient()).await;
    server.save(&one_step("wf")).await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let job = server.claim_one("w").await;
    let path = format!("/api/v1/workflow-runs/{run}?wait_ms=60000");
    let waiting: Vec<_> = (0..waiters).map(|_| tokio::spawn(server.get(&path).send())).collect();
    until("all wait", async || server.control.run_ends.waiters() == waiters).await;
    let before = store.runs_read.load(Ordering::Relaxed);
    server.report(&job, "complete", json!({"output": 1})).await.ok(200);
    for answer in waiting {
        assert_eq!(answer.await.unwrap().ok(200)["status"], json!("succeeded"));
    }
    assert_eq!((server.control.run_ends.waiters(), server.control.run_ends.runs_watched()), (0, 0));
    (store.polls.load(Ordering::Relaxed), store.runs_read.load(Ordering::Relaxed) - before)
}

#[tokio::test]
async fn five_hundred_waiters_read_the_store_no_more_than_one() {
    let (polls_of_one, runs_of_one) = reads_of(1).await;
    let (polls, runs) = reads_of(500).await;
    // One look at the arrival, and at most one for each change of the run until its end.
    assert!(polls_of_one <= 6 && polls <= 6, "{polls_of_one} and {polls} polls");
    assert_eq!(runs, runs_of_one, "the ended run is read once for all");
}

#[tokio::test]
async fn waiters_for_many_runs_share_each_poll() {
    const RUNS: usize = 500;
    let store = CountingStore::new();
    let settings = settings::Settings { run_end_poll: Duration::from_millis(50), ..patient() };
    let server = Server::on(store.clone(), settings).await;
    server.save(&one_step("wf")).await;
    server.cap("default", 1_000).await;
    let waiting: Vec<_> = (0..RUNS).map(|_| waiting_start(&server, 60)).collect();
    until("all wait", async || server.control.run_ends.waiters() == RUNS).await;
    let began = tokio::time::Instant::now();
    let before = store.polls.load(Ordering::Relaxed);
    until("some polls", async || store.polls.load(Ordering::Relaxed) >= before + 5).await;
    let polls = store.polls.load(Ordering::Relaxed) - before;
    let periods = began.elapsed().as_millis() / 50 + 1;
    assert!(polls as u128 <= periods, "{polls} polls in {periods} periods, for {RUNS} runs");
    server.shutdown.cancel();
    for answer in waiting {
        answer.await.unwrap().ok(202);
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_leaves_nothing_behind() {
    let server = server_with_workflow().await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let mut client = TcpStream::connect(server.address).await.unwrap();
    let request =
        format!("GET /api/v1/workflow-runs/{run}?wait_ms=60000 HTTP/1.1\r\nhost: localhost\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let ends = server.control.run_ends.clone();
    until("the read waits", async || (ends.waiters(), ends.runs_watched()) == (1, 1)).await;
    drop(client);
    until("nothing is left", async || (ends.waiters(), ends.runs_watched()) == (0, 0)).await;
}

#[tokio::test]
async fn the_number_of_waiting_requests_is_bounded_for_a_tenant_and_in_all() {
    let settings = settings::Settings { run_waiters_max: 3, tenant_run_waiters_max: 2, ..patient() };
    let server = Server::on(empty_store(), settings).await;
    let path = async |tenant: &str| -> String {
        server
            .post("/api/v1/workflows")
            .header("x-tenant-id", tenant)
            .json(&one_step("wf"))
            .send()
            .await
            .ok(201);
        let run =
            server.post(STARTS).header("x-tenant-id", tenant).json(&json!({"n": 1})).send().await.ok(200);
        format!("/api/v1/workflow-runs/{}?wait_ms=60000", run["run_id"].as_str().unwrap())
    };
    let (acme, globex) = (path("acme").await, path("globex").await);
    let wait = |tenant: &str, path: &str| server.get(path).header("x-tenant-id", tenant).send();
    let mut waiting = vec![tokio::spawn(wait("acme", &acme)), tokio::spawn(wait("acme", &acme))];
    let ends = &server.control.run_ends;
    until("two wait", async || ends.waiters() == 2).await;
    let refused = wait("acme", &acme).await;
    assert!(refused.header("retry-after").is_some());
    assert!(says(&refused.problem(503, "too_many_connections"), "2 of one tenant"));
    waiting.push(tokio::spawn(wait("globex", &globex)));
    until("three wait", async || ends.waiters() == 3).await;
    assert!(says(&wait("globex", &globex).await.problem(503, "too_many_connections"), "3 in all"));
    // A start is started all the same, and says that it did not wait.
    let start = server.post(STARTS).header("x-tenant-id", "globex").header("prefer", "wait=60");
    let started = start.json(&json!({"n": 1})).send().await;
    assert_eq!(started.header("preference-applied"), None);
    let started = started.ok(202);
    assert!(started["detail"].as_str().unwrap().contains("did not wait"), "{started}");
    server.shutdown.cancel();
    for answer in waiting {
        answer.await.unwrap().ok(202);
    }
}

fn says(problem: &Value, words: &str) -> bool {
    problem["error"].as_str().unwrap().contains(words)
}
