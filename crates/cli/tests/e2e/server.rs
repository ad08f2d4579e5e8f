//! The real binary on a free port, in a folder of its own, stopped with its guard.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub(crate) use interlock_poll::LIMIT;
use interlock_poll::{until, until_matches};
use reqwest::{Method, StatusCode, header::HeaderMap};
use serde_json::{Value, json};

use super::secrets;

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_interlock");

pub(crate) struct Server {
    child: Child,
    pub(crate) base: String,
    /// The line that says that the server is ready.
    pub(crate) ready: String,
    client: reqwest::Client,
}

/// A response with its whole body.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn text(&self, member: &str) -> String {
        self.body[member].as_str().unwrap_or_else(|| panic!("no text {member} in {self:?}")).to_owned()
    }

    pub(crate) fn number(&self, member: &str) -> u64 {
        self.body[member].as_u64().unwrap_or_else(|| panic!("no number {member} in {self:?}"))
    }

    /// Asserts the status.
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        self
    }
}

impl Server {
    /// Starts a server on this folder and a free port.
    pub(crate) fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    pub(crate) fn start_with(data: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).args(arguments);
        Self::of(command)
    }

    /// Starts a server by this command, and returns when it is ready.
    pub(crate) fn of(mut command: Command) -> Self {
        secrets::record_of(&command);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary runs");
        let output = child.stdout.take().expect("the output is piped");
        let ready = BufReader::new(output).lines().map_while(Result::ok).find(|line| line.contains("://"));
        let ready = ready.expect("the server says when it is ready");
        let base = ready.split_whitespace().find(|word| word.starts_with("http"));
        let base = base.expect("the line names the address").to_owned();
        Self { child, base, ready, client: client() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the server can be asked").is_some()
    }

    /// As `kill -9`: the server cannot clean up.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the server was running");
        self.child.wait().expect("the server has ended");
    }

    /// Sends `TERM` and returns the exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        signal(self.pid(), "TERM");
        self.child.wait().expect("the server has ended").code()
    }

    pub(crate) fn caller(&self, tenant: &str) -> Caller {
        Caller { base: self.base.clone(), tenant: tenant.to_owned(), client: self.client.clone() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal(pid: u32, name: &str) {
    // The shell's own: not every machine has it as a program.
    let status = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
    assert!(status.expect("sh runs").success());
}

fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Longer than the longest wait that a request may ask for.
    reqwest::Client::builder().timeout(2 * LIMIT).build().expect("the client can be made")
}

/// One tenant's client of a server.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) base: String,
    pub(crate) tenant: String,
    client: reqwest::Client,
}

impl Caller {
    /// The same client for another tenant.
    pub(crate) fn of(&self, tenant: &str) -> Self {
        Self { tenant: tenant.to_owned(), ..self.clone() }
    }

    /// None if the server is unreachable or dies before it answers.
    pub(crate) async fn try_send(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: &Value,
    ) -> Option<Answer> {
        let url = format!("{}/api/v1{path}", self.base);
        let mut request = self.client.request(method, url).header("X-Tenant-ID", &self.tenant);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        if !body.is_null() {
            request = request.json(body);
        }
        let answer = request.send().await.ok()?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let text = answer.text().await.ok()?;
        let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).ok()? };
        secrets::record_key_of(&body);
        Some(Answer { status, headers, body })
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.try_send(Method::POST, path, None, &body).await.expect("the server answers")
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.try_send(Method::GET, path, None, &Value::Null).await.expect("the server answers")
    }

    pub(crate) async fn start(&self, workflow: &str, key: Option<&str>, input: &Value) -> Answer {
        let path = format!("/workflows/{workflow}/runs");
        self.try_send(Method::POST, &path, key, input).await.expect("the server answers")
    }

    pub(crate) async fn limit(&self, runs_max: u32) {
        let data = json!({"limits": {"max_concurrent_runs": runs_max}});
        let body = json!({"scope": "org", "scope_id": self.tenant, "data": data});
        let answer = self.try_send(Method::PUT, "/config", None, &body).await.expect("the server answers");
        answer.expect(204);
    }

    /// Saves a workflow under this id.
    pub(crate) async fn workflow(&self, id: &str, steps: Value) {
        self.post("/workflows", json!({"id": id, "name": id, "steps": steps})).await.expect(201);
    }

    pub(crate) async fn run(&self, run: &str) -> Value {
        self.get(&format!("/workflow-runs/{run}")).await.expect(200).body
    }

    /// The run, once it has ended.
    pub(crate) async fn ended(&self, run: &str) -> Value {
        self.when(run, |run| {
            !matches!(run["status"].as_str(), Some("queued" | "pending" | "running" | "waiting"))
        })
        .await
    }

    /// The run, once it matches.
    pub(crate) async fn when(&self, run: &str, matches: impl Fn(&Value) -> bool) -> Value {
        until_matches("the run matches", async || self.run(run).await, matches).await
    }

    /// Claims jobs of `topic` and waits until there is one.
    pub(crate) async fn claim(&self, worker: &str, topic: &str, jobs_max: u32) -> Vec<Value> {
        let claim = json!({"topics": [topic], "max_jobs": jobs_max, "wait_ms": 20_000});
        until(&format!("there is a job of {topic}"), async || {
            let answer = self.post(&format!("/workers/{worker}/claim"), claim.clone()).await.expect(200);
            Some(answer.body["jobs"].as_array().expect("jobs are a list").clone())
                .filter(|jobs| !jobs.is_empty())
        })
        .await
    }

    pub(crate) async fn complete(&self, job: &Value, output: &Value) -> Answer {
        let id = job["job_id"].as_str().expect("a job has an id");
        self.post(&format!("/jobs/{id}/complete"), json!({"fence": job["fence"], "output": output})).await
    }
}
