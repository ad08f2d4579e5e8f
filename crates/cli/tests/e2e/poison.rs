//! A run that the process does not survive is quarantined, and everything else continues.
//!
//! The planted runs need a binary that was built with `interlock-control/planted-abort`, as all tests are.

use std::path::Path;
use std::process::Command;

use interlock_poll::until;
use reqwest::Method;
use serde_json::{Value, json};

use super::doctor::{doctor, names};
use super::machines::Machines;
use super::server::{BINARY, Caller, Server};

const TRIES: u32 = 5;

/// Those of them that are made alone.
const ALONE: u32 = 3;

const SHORT: [&str; 6] = ["--run-lease-ms", "400", "--turn-time-max-ms", "200", "--poll-ms", "100"];

/// A server that is started again whenever it has died.
struct Supervised<'a> {
    start: Box<dyn Fn() -> Server + 'a>,
    server: Server,
    deaths: u32,
}

impl<'a> Supervised<'a> {
    fn new(start: impl Fn() -> Server + 'a) -> Self {
        Self { server: start(), start: Box::new(start), deaths: 0 }
    }

    /// The tenant's client of the server that lives now.
    fn caller(&mut self, tenant: &str) -> Caller {
        if self.server.has_ended() {
            self.deaths += 1;
            self.server = (self.start)();
        }
        self.server.caller(tenant)
    }

    /// Works for both tenants, whatever dies meanwhile, until `matches` has an answer.
    async fn until<T>(&mut self, what: &str, matches: impl AsyncFn(&Caller) -> Option<T>) -> T {
        let supervised = tokio::sync::Mutex::new(self);
        until(what, async || {
            let mut supervised = supervised.lock().await;
            for tenant in ["acme", "globex"] {
                work(&supervised.caller(tenant)).await;
            }
            matches(&supervised.caller("acme")).await
        })
        .await
    }

    async fn quarantined(&mut self, run: &str) -> Value {
        let path = format!("/dlq/{run}:run@0");
        self.until("the run is quarantined", async |caller| {
            let letter = caller.try_send(Method::GET, &path, None, &Value::Null).await?;
            (letter.status == 200).then_some(letter.body)
        })
        .await
    }
}

/// Does one job of the innocent, unless the server dies.
async fn work(caller: &Caller) -> Option<()> {
    let claim = json!({"topics": ["work"], "max_jobs": 1, "wait_ms": 0});
    let claimed = caller.try_send(Method::POST, "/workers/w/claim", None, &claim).await?;
    for job in claimed.body["jobs"].as_array()? {
        let path = format!("/jobs/{}/complete", job["job_id"].as_str()?);
        let done = json!({"fence": job["fence"], "output": {}});
        caller.try_send(Method::POST, &path, None, &done).await?;
    }
    Some(())
}

/// Starts a run that does not survive its second turn, and lets its worker report. The answer may be lost.
async fn poison(caller: &Caller, planted: &str) -> String {
    let start = caller.start("poison", None, &json!({"planted": planted})).await;
    let run = start.expect(200).text("run_id");
    let job = caller.claim("w", "poison", 1).await.remove(0);
    let path = format!("/jobs/{}/complete", job["job_id"].as_str().unwrap());
    let done = json!({"fence": job["fence"], "output": {}});
    caller.try_send(Method::POST, &path, None, &done).await;
    run
}

async fn save_workflows(caller: &Caller) {
    let two = json!({"a": {"type": "worker", "topic": "work"},
        "b": {"type": "worker", "topic": "work", "depends_on": ["a"]}});
    caller.workflow("innocent", two).await;
    caller.workflow("poison", json!({"a": {"type": "worker", "topic": "poison"}})).await;
}

fn why(server: &Server, run: &str) -> Value {
    let ask = ["--gateway", &server.base, "--tenant", "acme", "--json", "why", run];
    let output = Command::new(BINARY).args(ask).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

async fn an_aborting_run_is_quarantined(mut supervised: Supervised<'_>) {
    let (acme, globex) = (supervised.caller("acme"), supervised.caller("globex"));
    save_workflows(&acme).await;
    save_workflows(&globex).await;
    acme.limit(4).await;
    let mut innocents = Vec::new();
    for (caller, count) in [(&acme, 3), (&globex, 3)] {
        for _ in 0..count {
            let run = caller.start("innocent", None, &json!({})).await.expect(200).text("run_id");
            innocents.push((caller.tenant.clone(), run));
        }
    }
    let run = poison(&acme, "abort").await;
    let letter = supervised.quarantined(&run).await;
    assert_eq!((&letter["reason_code"], &letter["attempts"]), (&json!("run_quarantined"), &json!(TRIES)));
    assert_eq!(supervised.deaths, TRIES, "no other try, and no other run, was deadly");
    for (tenant, run) in &innocents {
        let path = format!("/workflow-runs/{run}");
        let ended = supervised.until("an innocent run ends", async |caller| {
            let run = caller.of(tenant).try_send(Method::GET, &path, None, &Value::Null).await?;
            (run.body["status"] == "succeeded").then_some(())
        });
        ended.await;
    }

    let acme = supervised.caller("acme");
    assert_eq!(acme.run(&run).await["status"], "running");
    acme.limit(1).await;
    let refused = acme.start("innocent", None, &json!({})).await.expect(429);
    assert_eq!(refused.number("current"), 1, "it keeps its slot, and no other run has one");
    let cause = &why(&supervised.server, &run)["causes"][0];
    assert_eq!(cause["code"], "quarantined", "{cause}");
    assert!(cause.to_string().contains("5 tries"), "{cause}");
    let (_, report) = doctor(&supervised.server.base, &["--tenant", "acme"]);
    assert_eq!(names(&report["findings"]), [("run_quarantined".to_owned(), run.clone())]);

    acme.post(&format!("/dlq/{run}:run@0/retry"), Value::Null).await.expect(200);
    supervised.quarantined(&run).await;
    assert_eq!(supervised.deaths, TRIES + ALONE, "it was tried again, alone from the first");

    let acme = supervised.caller("acme");
    acme.post(&format!("/workflow-runs/{run}/cancel"), Value::Null).await.expect(204);
    assert_eq!(acme.ended(&run).await["status"], "cancelled", "without its deadly turn");
    let letters = acme.get("/dlq").await.expect(200).body;
    assert_eq!(letters["items"], json!([]));
    acme.start("innocent", None, &json!({})).await.expect(200);
    assert!(!supervised.server.has_ended());
}

#[tokio::test]
async fn a_run_that_aborts_the_process_is_quarantined_and_all_others_end() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    an_aborting_run_is_quarantined(Supervised::new(|| Server::start_with(&data, &SHORT))).await;
}

#[tokio::test]
async fn a_run_that_aborts_one_replica_after_the_other_is_quarantined_and_all_others_end() {
    let machines = Machines::start(0).await;
    let (redis, nats) = (machines.redis.url(), machines.nats.url());
    let arguments = [&["--redis", &redis, "--nats", &nats], &SHORT[..]].concat();
    // The folder is not used with Redis.
    let start = || Server::start_with(Path::new("/nonexistent/unused"), &arguments);
    an_aborting_run_is_quarantined(Supervised::new(start)).await;
}

#[tokio::test]
async fn a_run_that_aborts_the_process_is_quarantined_under_the_lock_strategy() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let arguments = [&SHORT[..], &["--run-strategy", "lock"]].concat();
    an_aborting_run_is_quarantined(Supervised::new(|| Server::start_with(&data, &arguments))).await;
}

#[tokio::test]
async fn runs_that_panic_or_hang_are_quarantined_and_the_server_lives_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut supervised = Supervised::new(|| Server::start_with(&data, &SHORT));
    let acme = supervised.caller("acme");
    save_workflows(&acme).await;
    save_workflows(&supervised.caller("globex")).await;
    // A large input and a large output: turns that are not computed in passing, the first one included.
    let big = "x".repeat(100_000);
    let at_once = json!({"planted": "hang", "big": big});
    let hanging_at_once = acme.start("poison", None, &at_once).await.expect(200).text("run_id");
    let hanging = acme.start("poison", None, &json!({"planted": "hang"})).await.expect(200).text("run_id");
    let job = acme.claim("w", "poison", 1).await.remove(0);
    acme.complete(&job, &json!(big)).await.expect(200);
    let panicking = poison(&acme, "panic").await;
    for run in [&panicking, &hanging, &hanging_at_once] {
        let letter = supervised.quarantined(run).await;
        assert_eq!((&letter["reason_code"], &letter["attempts"]), (&json!("run_quarantined"), &json!(TRIES)));
    }
    let innocent = acme.start("innocent", None, &json!({})).await.expect(200).text("run_id");
    let path = format!("/workflow-runs/{innocent}");
    supervised
        .until("an innocent run ends", async |caller| {
            let run = caller.try_send(Method::GET, &path, None, &Value::Null).await?;
            (run.body["status"] == "succeeded").then_some(())
        })
        .await;
    assert_eq!(supervised.deaths, 0);
    assert_eq!(supervised.server.stop(), Some(0), "a turn that hangs does not keep it from ending");
}
