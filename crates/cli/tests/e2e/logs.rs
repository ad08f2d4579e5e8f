//! The log as JSON: each line names its subjects in fields that are always the same.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use interlock_poll::until;
use serde_json::{Value, json};

use super::server::{BINARY, Caller, Server};
use super::walk_through::read;

const PAGE: &str = "docs/operating/logs-and-traces.md";

/// Every message on the page, with the fields of its line.
const PROMISED: [(&str, &[&str]); 11] = [
    ("run admitted", &["tenant", "run"]),
    ("start refused: cap reached", &["tenant", "run"]),
    ("job dispatched", &["tenant", "run", "job"]),
    ("job claimed", &["tenant", "run", "job", "fence", "worker"]),
    ("stale write refused", &["tenant", "run", "job", "fence", "current"]),
    ("result recorded", &["tenant", "run", "job", "fence"]),
    ("lease or timeout expired; the job has ended", &["tenant", "run", "job"]),
    ("run ended", &["tenant", "run", "fence", "status"]),
    ("lock granted", &["tenant", "lock", "fence", "owner"]),
    ("lock force-released", &["tenant", "lock", "by", "reason"]),
    ("job became a dead letter", &["tenant", "run", "job", "attempts", "reason"]),
];

/// A server whose log goes into a file.
struct LoggedServer {
    server: Server,
    file: PathBuf,
}

impl LoggedServer {
    fn start(folder: &Path, level: &str) -> Self {
        let file = folder.join("log");
        let mut command = Command::new(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", level]);
        command.args(["--poll-ms", "50", "--data"]).arg(folder.join("data"));
        command.stderr(File::create(&file).unwrap());
        Self { server: Server::of(command), file }
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.file).unwrap();
        // The last line may be incomplete.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
            .collect()
    }

    /// The first line with this message.
    async fn line(&self, message: &str) -> Value {
        until(&format!("the log has `{message}`"), async || {
            self.lines().into_iter().find(|line| line["message"] == message)
        })
        .await
    }
}

/// Runs a job with a stale heartbeat, a lost worker and a result.
async fn run_through_failures(caller: &Caller) -> (String, Value) {
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    caller.limit(1).await;
    let run = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    caller.start("job", None, &json!({})).await.expect(429);
    let claim = json!({"topics": ["work"], "max_jobs": 1, "wait_ms": 20_000, "lease_ms": 1_000});
    let first = caller.post("/workers/dies/claim", claim).await.expect(200).body["jobs"][0].clone();
    let second = caller.claim("lives", "work", 1).await.remove(0);
    let stale = format!("/jobs/{}/heartbeat", first["job_id"].as_str().unwrap());
    caller.post(&stale, json!({"fence": first["fence"]})).await.expect(409);
    caller.complete(&second, &json!({})).await.expect(200);
    caller.ended(&run).await;
    (run, second)
}

async fn use_a_lock(caller: &Caller) {
    let request = json!({"resource": "deploy/prod", "owner": "ci", "mode": "exclusive", "ttl_ms": 60_000});
    let token = caller.post("/locks/acquire", request).await.expect(200).text("token");
    let forced = json!({"resource": "deploy/prod", "expect_token": token, "reason": "a test"});
    caller.post("/locks/force-release", forced).await.expect(204);
}

#[tokio::test]
async fn each_line_names_its_run_job_and_lock() {
    let folder = tempfile::tempdir().unwrap();
    let logged = LoggedServer::start(folder.path(), "debug");
    let caller = logged.server.caller("acme");
    let (run, job) = run_through_failures(&caller).await;
    use_a_lock(&caller).await;
    // A dead letter would take ten lost workers.
    for (message, members) in &PROMISED[..PROMISED.len() - 1] {
        let line = logged.line(message).await;
        for member in *members {
            assert!(!line[member].is_null(), "{member} is not in {line}");
        }
        assert_eq!(line["tenant"], "acme", "{line}");
    }
    assert_eq!(logged.line("run admitted").await["run"], run);
    let recorded = logged.line("result recorded").await;
    assert_eq!((&recorded["job"], &recorded["fence"]), (&job["job_id"], &job["fence"]));
    assert_eq!(logged.line("run ended").await["status"], "succeeded");
}

#[tokio::test]
async fn frequent_events_are_not_logged_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let logged = LoggedServer::start(folder.path(), "info");
    run_through_failures(&logged.server.caller("acme")).await;
    logged.line("lease or timeout expired; the job has ended").await;
    logged.line("stale write refused").await;
    let quiet = ["run admitted", "job claimed", "result recorded", "run ended"];
    let loud: Vec<Value> = logged
        .lines()
        .into_iter()
        .filter(|line| quiet.iter().any(|message| line["message"] == *message))
        .collect();
    assert_eq!(loud, Vec::<Value>::new());
}

#[test]
fn the_page_has_every_message_with_its_fields() {
    let page = read(PAGE);
    for (message, members) in PROMISED {
        let row = page.lines().find(|line| line.contains(&format!("`{message}`")));
        let row = row.unwrap_or_else(|| panic!("{message} is not on the page"));
        for member in members {
            assert!(row.contains(&format!("`{member}`")), "{member} of {message}");
        }
    }
}
