//! The log as machines read it: who and what each line is about, under names that are always the same.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{BINARY, Caller, LIMIT, Server};
use super::walk_through::read;

const PAGE: &str = "docs/operating/logs-and-traces.md";

/// Every message that the page promises, with the members that must be on its line.
const PROMISED: [(&str, &[&str]); 11] = [
    ("a run was admitted", &["tenant", "run"]),
    ("a start was refused: the cap is reached", &["tenant", "run"]),
    ("a job was dispatched", &["tenant", "run", "job"]),
    ("a job was claimed", &["tenant", "run", "job", "fence", "worker"]),
    ("a stale write was refused", &["tenant", "run", "job", "fence", "current"]),
    ("a result was recorded", &["tenant", "run", "job", "fence"]),
    ("a lease ran out; the job goes to another worker", &["tenant", "run", "job"]),
    ("a run has ended", &["tenant", "run", "fence", "status"]),
    ("a lock was granted", &["tenant", "lock", "fence", "owner"]),
    ("a lock was taken from its holder", &["tenant", "lock", "by", "reason"]),
    ("a job was given up on: it is a dead letter", &["tenant", "run", "job", "attempts", "reason"]),
];

/// A server whose log goes into a file.
struct Logged {
    server: Server,
    file: PathBuf,
}

impl Logged {
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
        // The last line may be half written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
            .collect()
    }

    /// The first line with this message.
    async fn told(&self, message: &str) -> Value {
        let until = Instant::now() + LIMIT;
        loop {
            if let Some(line) = self.lines().into_iter().find(|line| line["message"] == message) {
                return line;
            }
            assert!(Instant::now() < until, "nothing is told of it: {message}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// One run with all that can happen to it: a stale heartbeat, a lost worker, a result.
async fn live_through(caller: &Caller) -> (String, Value) {
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
    let asked = json!({"resource": "deploy/prod", "owner": "ci", "mode": "exclusive", "ttl_ms": 60_000});
    let token = caller.post("/locks/acquire", asked).await.expect(200).text("token");
    let forced = json!({"resource": "deploy/prod", "expect_token": token, "reason": "a test"});
    caller.post("/locks/force-release", forced).await.expect(204);
}

#[tokio::test]
async fn lines_about_runs_jobs_and_locks_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let logged = Logged::start(folder.path(), "debug");
    let caller = logged.server.caller("acme");
    let (run, job) = live_through(&caller).await;
    use_a_lock(&caller).await;
    // A dead letter takes ten lost workers; its line is like the others.
    for (message, members) in &PROMISED[..PROMISED.len() - 1] {
        let line = logged.told(message).await;
        for member in *members {
            assert!(!line[member].is_null(), "{member} is not in {line}");
        }
        assert_eq!(line["tenant"], "acme", "{line}");
    }
    assert_eq!(logged.told("a run was admitted").await["run"], run);
    let recorded = logged.told("a result was recorded").await;
    assert_eq!((&recorded["job"], &recorded["fence"]), (&job["job_id"], &job["fence"]));
    assert_eq!(logged.told("a run has ended").await["status"], "succeeded");
}

#[tokio::test]
async fn what_happens_all_the_time_is_not_told_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let logged = Logged::start(folder.path(), "info");
    live_through(&logged.server.caller("acme")).await;
    logged.told("a lease ran out; the job goes to another worker").await;
    logged.told("a stale write was refused").await;
    let quiet = ["a run was admitted", "a job was claimed", "a result was recorded", "a run has ended"];
    let loud: Vec<Value> =
        logged.lines().into_iter().filter(|line| quiet.iter().any(|told| line["message"] == *told)).collect();
    assert_eq!(loud, Vec::<Value>::new());
}

#[test]
fn the_page_has_every_message_with_its_members() {
    let page = read(PAGE);
    for (message, members) in PROMISED {
        let row = page.lines().find(|line| line.contains(&format!("`{message}`")));
        let row = row.unwrap_or_else(|| panic!("{message} is not on the page"));
        for member in members {
            assert!(row.contains(&format!("`{member}`")), "{member} of {message}");
        }
    }
}
