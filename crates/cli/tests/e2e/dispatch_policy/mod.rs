//! A policy decides before a job goes to a worker: the same tests on one machine and on many.

mod rules;
mod service;
mod unreachable;

use std::path::Path;

use interlock_poll::until_matches;
use serde_json::{Value, json};

use super::machines::Machines;
use super::server::{Caller, Server};
use service::PolicyService;

const TOKEN: &str = "let-me-in";

/// Writes a configuration file with this policy, and the service's token beside it.
fn configured(folder: &Path, policy: &str) -> String {
    std::fs::write(folder.join("token"), format!("{TOKEN}\n")).unwrap();
    let file = folder.join("interlock.toml");
    std::fs::write(&file, format!("poll_ms = 100\n{policy}")).unwrap();
    file.display().to_string()
}

/// The service's part of the configuration, with short timeouts and pauses.
fn service_at(service: &PolicyService, folder: &Path) -> String {
    let (url, token) = (service.url(), folder.join("token").display().to_string());
    format!(
        "[dispatch_policy.service]\nurl = \"{url}\"\nbearer_file = \"{token}\"\ntimeout_ms = 2000\nfailures_max = 2\n\
         pause_ms = 200\nfailure = \"closed\"\n[dispatch_policy.service.tenants]\nopen-co = \"open\"\n"
    )
}

/// The replicas of one installation, or the one embedded server.
struct Installation {
    servers: Vec<Server>,
    _folder: tempfile::TempDir,
    _machines: Option<Machines>,
}

impl Installation {
    fn embedded(folder: tempfile::TempDir, config: &str) -> Self {
        let server = Server::start_with(&folder.path().join("data"), &["--config", config]);
        Self { servers: vec![server], _folder: folder, _machines: None }
    }

    /// Three replicas that decide about the same jobs.
    async fn distributed(folder: tempfile::TempDir, config: &str) -> Self {
        let mut machines = Machines::start_with(3, &["--config", config]).await;
        let servers = std::mem::take(&mut machines.replicas);
        Self { servers, _folder: folder, _machines: Some(machines) }
    }

    fn caller(&self, tenant: &str) -> Caller {
        self.servers[0].caller(tenant)
    }

    /// Over all replicas.
    async fn fail_opens(&self) -> u64 {
        let mut total = 0;
        for server in &self.servers {
            let text = reqwest::get(format!("{}/metrics", server.base)).await.unwrap().text().await.unwrap();
            let name = "cordum_scheduler_input_fail_open_total ";
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            total += line.expect("the counter is served from the start").parse::<u64>().unwrap();
        }
        total
    }
}

/// One worker step with this topic, under the topic's name.
async fn one_step(caller: &Caller, topic: &str, more: Value) -> String {
    let mut step = json!({"type": "worker", "topic": topic});
    step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    caller.workflow(topic, json!({"step": step})).await;
    topic.to_owned()
}

async fn started(caller: &Caller, workflow: &str) -> String {
    caller.start(workflow, None, &json!({"n": 1})).await.expect(200).text("run_id")
}

/// The first job of a run's one step, once it matches.
async fn job_when(caller: &Caller, run: &str, matches: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/jobs/{run}:step@1");
    until_matches("the job matches", async || caller.get(&path).await.expect(200).body, matches).await
}

async fn held_for(caller: &Caller, run: &str, reason: &str) -> Value {
    let job = job_when(caller, run, |job| job["waiting_for"]["reason"] == reason).await;
    assert_eq!(job["state"], "held", "{job}");
    job
}

/// Whether no job can be claimed now.
async fn nothing_to_claim(caller: &Caller, topic: &str) -> bool {
    let claim = json!({"topics": [topic], "max_jobs": 10, "wait_ms": 0});
    let answer = caller.post("/workers/w/claim", claim).await.expect(200);
    answer.body["jobs"].as_array().unwrap().is_empty()
}

/// Completes the run's job and returns the ended run.
async fn finish(caller: &Caller, run: &str, topic: &str) -> Value {
    let jobs = caller.claim("w", topic, 1).await;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0]["run_id"], run);
    caller.complete(&jobs[0], &json!({"ok": true})).await.expect(200);
    caller.ended(run).await
}

/// The messages of the timeline's events of this type.
async fn messages(caller: &Caller, run: &str, kind: &str) -> Vec<String> {
    let timeline = caller.get(&format!("/workflow-runs/{run}/timeline?limit=500")).await.expect(200).body;
    let events = timeline["items"].as_array().unwrap().iter().filter(|event| event["type"] == kind);
    events.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
}
