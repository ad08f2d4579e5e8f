//! Retry policies and rollouts on the command line.

use std::process::{Command, Output};

use interlock_model::retry::{RetryPolicy, Seed};
use interlock_model::time::millis;
use serde_json::{Value, json};

use super::server::{BINARY, Server};

fn interlock(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).output().expect("the binary runs")
}

/// What it prints. Asserts that it succeeds.
fn print(server: &Server, arguments: &[&str]) -> String {
    let output = interlock(&[&["--gateway", &server.base], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn read(server: &Server, arguments: &[&str]) -> Value {
    let text = print(server, &[arguments, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
}

fn exit(server: &Server, arguments: &[&str]) -> Option<i32> {
    interlock(&[&["--gateway", &server.base], arguments].concat()).status.code()
}

fn delays(explained: &Value) -> Vec<u64> {
    let attempts = explained["attempts"].as_array().expect("attempts are a list");
    attempts.iter().map(|attempt| attempt["delay_ms"].as_u64().unwrap()).collect()
}

#[test]
fn a_retry_schedule_is_computed_from_the_seed_without_a_server() {
    let job = "0192f0c1-0000-7000-8000-000000000001:build[3]@2";
    let run = "0192f0c1-0000-7000-8000-000000000001";
    let cases = [
        (["--job", job], Seed::of_result(&job.parse().unwrap())),
        (["--run", run], Seed::of_admission(run.parse().unwrap())),
        (["--seed", "7"], Seed::new(7)),
    ];
    for (subject, seed) in cases {
        for policy in ["fixed:500ms", "bounded_jitter:500ms:30%", "decorrelated_jitter:10ms:2s"] {
            let mut command = Command::new(BINARY);
            command.args(["retry-policy", "explain", "--policy", policy, "--attempts", "5", "--json"]);
            // No gateway listens there: the command needs none.
            let output = command.args(["--gateway", "http://127.0.0.1:1"]).args(subject).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let explained: Value = serde_json::from_slice(&output.stdout).unwrap();
            let policy: RetryPolicy = policy.parse().unwrap();
            let expected: Vec<u64> = (1..=5).map(|attempt| millis(policy.delay_of(attempt, seed))).collect();
            assert_eq!((delays(&explained), &explained["seed"]), (expected, &json!(seed.number())));
        }
    }
    let wrong = interlock(&["retry-policy", "explain", "--seed", "7", "--policy", "soon"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(interlock(&["retry-policy", "explain", "--policy", "fixed:5ms"]).status.code(), Some(2));
}

#[tokio::test]
async fn a_policy_is_set_rolled_back_and_kept_over_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &["--lock-busy-retry", "fixed:250ms"]);
    let lock_busy = |server: &Server| read(server, &["retry-policy", "get", "lock-busy"]);
    assert_eq!(lock_busy(&server)["policy"], "fixed:250ms", "as configured");
    let set = ["retry-policy", "set", "lock-busy", "bounded_jitter:500ms:30%", "--reason", "waves"];
    assert!(print(&server, &set).contains("bounded_jitter:500ms:30%"));
    print(&server, &["retry-policy", "set", "lock-busy", "fixed:700ms", "--max-wait-ms", "100"]);
    server.kill();

    let server = Server::start_with(folder.path(), &["--lock-busy-retry", "fixed:250ms"]);
    let status = read(&server, &["status"]);
    assert_eq!(
        (&status["retry_policies"][1]["policy"], &status["retry_policies"][1]["version"]),
        (&json!("fixed:700ms"), &json!(2))
    );
    assert!(print(&server, &["status"]).contains("lock_busy fixed:700ms (version 2 by anonymous)"));
    let history = print(&server, &["retry-policy", "get", "lock_busy"]);
    assert!(history.contains("waves") && history.contains("100 ms"), "{history}");
    print(&server, &["retry-policy", "rollback", "lock-busy"]);
    assert_eq!(lock_busy(&server)["policy"], "bounded_jitter:500ms:30%");
    print(&server, &["retry-policy", "rollback", "lock-busy", "--reason", "all of it"]);
    assert_eq!(lock_busy(&server)["policy"], "fixed:250ms");
    assert_eq!(exit(&server, &["retry-policy", "rollback", "lock-busy"]), Some(1));
    assert_eq!(exit(&server, &["retry-policy", "set", "lock-busy", "soon"]), Some(2));
    assert_eq!(exit(&server, &["retry-policy", "set", "nothing", "fixed:5ms"]), Some(2));
    let stale = ["retry-policy", "set", "lock-busy", "fixed:5ms", "--expected-version", "1"];
    assert_eq!(exit(&server, &stale), Some(1));
}

#[tokio::test]
async fn a_rollout_is_started_shown_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    assert_eq!(exit(&server, &["rollout", "status"]), Some(1), "no rollout was started yet");
    let start =
        ["rollout", "start", "--candidate", "full_jitter:500ms:5s", "--share", "50%", "--duration", "7d"];
    let begun = read(&server, &[&start[..], &["--guard-ratio", "3", "--min-samples", "20"]].concat());
    assert_eq!(begun["guards"], json!({"ratio": 3.0, "min_samples": 20}));
    assert_eq!(exit(&server, &start), Some(1), "one at a time");
    let shown = print(&server, &["rollout", "status"]);
    for word in [
        "CONTROL",
        "CANDIDATE",
        "fixed:500ms",
        "full_jitter:500ms:5000ms",
        "too few samples",
        "inbox",
        "started",
    ] {
        assert!(shown.contains(word), "{word} is not in {shown}");
    }

    // The retry schedule follows the arm of the run.
    let arms: Vec<Value> = (1..=20)
        .map(|number| {
            let job = format!("0192f0c1-0000-7000-8000-0000000000{number:02}:build@1");
            read(&server, &["retry-policy", "explain", "--job", &job])
        })
        .collect();
    let of = |arm: &str| arms.iter().filter(|explained| explained["arm"] == arm).collect::<Vec<_>>();
    let (control, candidate) = (of("control"), of("candidate"));
    assert!(!control.is_empty() && !candidate.is_empty() && control.len() + candidate.len() == 20);
    assert!(control.iter().all(|explained| explained["policy"] == "fixed:500ms"));
    assert!(candidate.iter().all(|explained| explained["policy"] == "full_jitter:500ms:5000ms"));

    let ended = read(&server, &["rollout", "abort", "--reason", "enough seen"]);
    assert_eq!((&ended["state"], &ended["verdict"]), (&json!("aborted"), &json!("enough seen")));
    let again = read(&server, &start);
    let promoted = read(&server, &["rollout", "promote", again["id"].as_str().unwrap()]);
    assert_eq!(promoted["state"], "promoted");
    assert_eq!(read(&server, &["retry-policy", "get", "lock-busy"])["policy"], "full_jitter:500ms:5000ms");
    assert_eq!(read(&server, &["rollout", "status", ended["id"].as_str().unwrap()])["state"], "aborted");
}
