//! The lab: its scenarios, its files and its cleanup.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::drill::report;
use super::server::{BINARY, Caller, LIMIT, Server, signal};
use super::walk_through::{self, blocks, read};

pub(crate) const PAGE: &str = "docs/operating/lab.md";

/// A temporary folder for a lab, which shows what it leaves behind.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(BINARY);
        command.arg("lab").args(line.split_whitespace()).env("TMPDIR", self.0.path());
        command.env_remove("INTERLOCK_GATEWAY");
        command
    }

    pub(crate) fn lab(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    fn begin(&self, line: &str) -> Child {
        self.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn expect_empty(&self) {
        assert_eq!(fs::read_dir(self.0.path()).unwrap().count(), 0);
    }
}

/// The arms of a scenario.
pub(crate) fn arms<'a>(report: &'a Value, scenario: &str) -> &'a Vec<Value> {
    let all = report["scenarios"].as_array().unwrap();
    let found = all.iter().find(|known| known["scenario"] == scenario);
    found.unwrap_or_else(|| panic!("no {scenario} in {report:#}"))["arms"].as_array().unwrap()
}

/// The arm was measured, or notes why not.
fn expect_measured(arm: &Value) {
    let figures = &arm["figures"];
    if figures.is_null() {
        let is_runbook = arm["work"]["kind"] == "steps";
        assert!(is_runbook || arm["notes"].to_string().contains("not measured"), "{arm:#}");
        return;
    }
    let number = |name: &str| figures[name].as_u64().unwrap_or_else(|| panic!("no {name}: {arm:#}"));
    let outcomes = ["ok", "status_409", "status_429", "status_503", "other", "unanswered"].map(number);
    assert_eq!(outcomes.iter().sum::<u64>(), number("requests"), "{arm:#}");
    assert_eq!(number("other"), 0, "{arm:#}");
    assert!(number("served") <= number("contenders"), "{arm:#}");
    assert!(figures["request_ms"]["p99"].as_f64() >= figures["request_ms"]["p50"].as_f64(), "{arm:#}");
    assert!(figures["commands"].is_u64(), "{arm:#}");
    // The lab does not see redelivered results and the storm.
    let is_seen = !["results", "probes"].map(Value::from).contains(&arm["work"]["kind"]);
    assert_eq!(figures["wave"].is_number(), is_seen, "{arm:#}");
    assert_eq!(arm["series"]["arrivals"] != json!([]), is_seen, "{arm:#}");
}

/// Two starts were admitted, and all others were refused by the cap or the admission lock.
pub(crate) fn expect_two_of(arm: &Value, starts: u64) {
    let number = |name: &str| arm["figures"][name].as_u64().unwrap();
    assert_eq!((number("requests"), number("ok")), (starts, 2), "{arm:#}");
    assert_eq!(number("status_429") + number("status_503"), starts - 2, "{arm:#}");
}

/// The arms whose clients do not retry.
pub(crate) fn without_retry(report: &Value) -> Vec<&Value> {
    let is_once = |arm: &&Value| arm["work"]["retry"].is_null();
    arms(report, "admission").iter().filter(is_once).collect()
}

#[test]
fn every_scenario_is_measured_and_written_to_files() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    let out = folder.path().join("out");
    let output = place.lab(&format!("--size tiny --seed 7 --json --out {}", out.display()));
    let report = report(&output, 0);
    assert_eq!((&report["seed"], &report["backend"]), (&json!(7), &json!("embedded")));
    for scenario in ["admission", "run-lock", "locks", "fairness", "idempotency", "budget"] {
        arms(&report, scenario).iter().for_each(expect_measured);
    }
    let once = without_retry(&report);
    assert_eq!(once.len(), 3);
    for arm in once {
        expect_two_of(arm, 20);
    }
    let steps = arms(&report, "idempotency")[0]["steps"].as_array().unwrap();
    assert_eq!(steps.iter().filter(|step| step["ok"] == true).count(), 8, "{steps:#?}");
    expect_files(&out, &report);
    place.expect_empty();
}

fn expect_files(out: &Path, report: &Value) {
    let written: Value = serde_json::from_str(&fs::read_to_string(out.join("lab.json")).unwrap()).unwrap();
    assert_eq!(&written, report);
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    for scenario in ["admission", "run-lock", "locks", "fairness", "budget"] {
        let lines = fs::read_to_string(out.join(format!("{scenario}.csv"))).unwrap().lines().count();
        assert_eq!(lines, arms(report, scenario).len() + 1, "{scenario}");
        let shape = if ["run-lock", "fairness"].contains(&scenario) { "served" } else { "burst" };
        for kind in [shape, "latency", "waves"] {
            let svg = fs::read_to_string(out.join(format!("{scenario}-{kind}.svg"))).unwrap();
            assert!(page.contains(&svg), "{scenario}-{kind} is not on the page");
        }
        for arm in arms(report, scenario) {
            assert!(page.contains(arm["name"].as_str().unwrap()), "{arm:#}");
        }
    }
    assert_eq!(fs::read_to_string(out.join("idempotency.csv")).unwrap().lines().count(), 9);
    // The page loads nothing from other files or addresses and runs no script.
    let content = page.replace("http://www.w3.org/2000/svg", "");
    for foreign in ["http:", "https:", "src=", "href=", "<script", "<link", "url(", "@import"] {
        assert!(!content.contains(foreign), "{foreign}");
    }
}

#[test]
fn the_same_seed_gives_the_same_plan() {
    let place = Place::new();
    let lab = |seed: u32| {
        let output = place.lab(&format!("--scenario locks --size tiny --json --seed {seed}"));
        arms(&report(&output, 0), "locks").clone()
    };
    let members = |arms: &[Value], names: &[&str]| -> Vec<Value> {
        arms.iter().flat_map(|arm| names.iter().map(|name| arm[*name].clone())).collect()
    };
    let plan = |arms: &[Value]| members(arms, &["name", "server", "work", "seed"]);
    let (one, same, other) = (lab(3), lab(3), lab(4));
    assert_eq!(plan(&one), plan(&same));
    assert_ne!(plan(&one), plan(&other));
    // Tenant names differ, so that labs on the same store do not share tenants.
    assert_ne!(members(&one, &["tenant"]), members(&same, &["tenant"]));
}

/// The tenant has no object that a lab creates.
async fn expect_no_traces(caller: &Caller) {
    for list in ["/workflow-runs", "/workflows", "/locks", "/jobs"] {
        assert_eq!(caller.get(list).await.expect(200).body["items"], json!([]), "{list}");
    }
    let path = format!("/config?scope=org&scope_id={}", caller.tenant);
    let limits = caller.get(&path).await.expect(200).body["data"]["limits"].clone();
    assert_eq!(limits, json!({}));
}

#[tokio::test]
async fn an_existing_server_is_measured_as_configured_and_cleaned_up() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    let server = Server::start(folder.path());
    let line = format!("--gateway {} --scenario admission,locks,fairness --size tiny --json", server.base);
    let report = report(&place.lab(&line), 0);
    for scenario in ["admission", "locks", "fairness"] {
        for arm in arms(&report, scenario) {
            expect_measured(arm);
            assert_eq!(arm["server"], json!([]), "{arm:#}");
            assert!(arm["name"].as_str().unwrap().starts_with("as configured"), "{arm:#}");
            assert!(
                arm["notes"].to_string().contains("in force: admission atomic, results inbox"),
                "{arm:#}"
            );
            let tenant = arm["tenant"].as_str().unwrap();
            expect_no_traces(&server.caller(tenant)).await;
            expect_no_traces(&server.caller(&format!("{tenant}-storm"))).await;
        }
    }
    assert_eq!(arms(&report, "admission").len(), 3);
    assert_eq!(report.get("left_behind"), None);
    place.expect_empty();
}

#[tokio::test]
async fn an_interrupted_lab_says_so_and_cleans_up() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    let server = Server::start(folder.path());
    let line = format!("--gateway {} --scenario admission --json", server.base);
    let lab = place.begin(&line);
    let until = Instant::now() + LIMIT;
    // The default tenant and the lab's: the lab has begun.
    while server.caller("default").get("/status").await.number("tenants") < 2 {
        assert!(Instant::now() < until, "the lab did not begin");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    signal(lab.id(), "INT");
    let report = report(&lab.wait_with_output().unwrap(), 3);
    assert_eq!(report["reason"], "interrupted");
    assert_eq!(report.get("left_behind"), None);
    let metrics = reqwest::get(format!("{}/metrics", server.base)).await.unwrap().text().await.unwrap();
    let active: Vec<_> =
        metrics.lines().filter(|line| line.starts_with("active_runs{tenant=\"lab-")).collect();
    assert!(active.iter().all(|line| line.ends_with(" 0")), "{active:?}");
    place.expect_empty();
}

#[test]
fn arms_without_time_are_noted_as_not_measured() {
    let place = Place::new();
    let report = report(&place.lab("--limit-s 1 --scenario admission,budget --json"), 0);
    let all: Vec<_> = arms(&report, "admission").iter().chain(arms(&report, "budget")).collect();
    assert_eq!(all.len(), 18);
    let late: Vec<_> = all.iter().filter(|arm| arm["figures"].is_null()).collect();
    assert!(!late.is_empty());
    assert!(late.iter().all(|arm| arm["notes"] == json!(["not measured: out of time"])), "{late:#?}");
}

#[test]
fn without_a_server_the_exit_code_is_3() {
    let place = Place::new();
    for line in [
        "--gateway http://127.0.0.1:1",
        "--redis redis://127.0.0.1:1 --nats nats://127.0.0.1:1 --scenario locks",
    ] {
        let output = place.lab(line);
        assert_eq!(output.status.code(), Some(3), "{line}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("127.0.0.1:1"), "{output:?}");
    }
    place.expect_empty();
}

#[test]
fn contradictory_and_invalid_flags_are_wrong_usage() {
    let place = Place::new();
    for line in [
        "--redis redis://127.0.0.1:1",
        "--gateway http://127.0.0.1:1 --redis redis://127.0.0.1:1 --nats nats://127.0.0.1:1",
        "--gateway nonsense",
        "--redis nonsense --nats nonsense",
        "--scenario nothing",
        "--size huge",
        "--limit-s 0",
        "--seed -1",
        "--tenant acme",
    ] {
        let output = place.lab(line);
        assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
    }
    place.expect_empty();
}

#[tokio::test]
async fn the_commands_of_the_lab_page_work() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    // The page is for readers without a configured server.
    let begin = "export PATH=\"$PWD/target/release:$PATH\"\nunset INTERLOCK_GATEWAY\n";
    let page = read(PAGE);
    let (worked, printed) =
        walk_through::run(&server, &format!("{begin}{}", blocks(&page, "sh walk-through").join("\n")));
    assert!(worked, "{printed}");
    for part in ["Starts of one tenant", "one step, no retry", "P99", "locks-burst.svg", "index.html"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(!printed.contains('\u{1b}'), "{printed}");
    // The page explains the columns.
    for column in ["SENT", "DEFERRED", "ALL SERVED", "COMMANDS", "RETRY WAVE", "SPREAD"] {
        assert!(page.contains(column), "{column}");
    }
}
