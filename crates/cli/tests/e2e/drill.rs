//! The drill: its verdict on a correct and on a tampered server, and its cleanup.

mod tampering_proxy;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use interlock_poll::until;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::server::{BINARY, Caller, Server, signal};
use super::walk_through::{self, blocks, read};
use tampering_proxy::{Tamper, TamperingProxy};

pub(crate) const PAGE: &str = "docs/operating/drill.md";

/// Finds the binary for the commands of a page.
const PATH: &str = "export PATH=\"$PWD/target/release:$PATH\"\n";

/// All late writes.
const LATE: [&str; 7] = [
    "lock_renew",
    "ledger_write",
    "lock_release",
    "job_heartbeat",
    "job_progress",
    "job_fail",
    "job_complete",
];

/// Adopts the orphans of the drill, as the first process of a container does. Without it, the kernel resumes paused
/// orphans.
const REAPER: &str = "\
import ctypes, subprocess, sys
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
subprocess.Popen(sys.argv[1:])
sys.stdin.read()";

#[derive(Debug, PartialEq)]
struct Found {
    pid: u32,
    is_paused: bool,
    command: String,
}

/// A temporary folder for a drill, which shows all processes and files that it leaves behind.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.arg("drill").args(arguments).env("TMPDIR", self.0.path()).env_remove("INTERLOCK_GATEWAY");
        command
    }

    pub(crate) fn drill(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn begin(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The processes that have this folder in their environment.
    fn processes(&self) -> Vec<Found> {
        let mark = format!("TMPDIR={}\0", self.0.path().display());
        let found = |process: &Path| {
            let environment = fs::read(process.join("environ")).ok()?;
            let is_ours = String::from_utf8_lossy(&environment).contains(&mark);
            let stat = fs::read_to_string(process.join("stat")).ok().filter(|_| is_ours)?;
            let is_paused = stat.rsplit(") ").next()?.starts_with('T');
            let command = fs::read_to_string(process.join("cmdline")).ok()?.replace('\0', " ");
            Some(Found { pid: process.file_name()?.to_str()?.parse().ok()?, is_paused, command })
        };
        fs::read_dir("/proc").unwrap().filter_map(|entry| found(&entry.ok()?.path())).collect()
    }

    pub(crate) fn expect_empty(&self) {
        assert_eq!(self.processes(), []);
        assert_eq!(fs::read_dir(self.0.path()).unwrap().count(), 0);
    }
}

/// The report of a drill or a lab, which must have exited with this code.
pub(crate) fn report(output: &Output, code: i32) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    assert_eq!(output.status.code(), Some(code), "{report:#} {errors}");
    report
}

/// The actor and operation of each row with this verdict.
fn rows(report: &Value, verdict: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["verdict"] == verdict);
    rows.map(|row| (text(&row["who"]), text(&row["what"]))).collect()
}

fn row(actor: &str, operation: &str) -> (String, String) {
    (actor.to_owned(), operation.to_owned())
}

/// Every check passed, including the refusal of every late write.
pub(crate) fn expect_held(report: &Value) {
    assert_eq!(report["verdict"], "held", "{report:#}");
    let passed = rows(report, "ok");
    assert_eq!(passed.len(), report["rows"].as_array().unwrap().len());
    for operation in LATE {
        assert!(passed.contains(&row("holder_late", operation)), "{operation}: {report:#}");
    }
    assert!(report["paused_ms"].as_u64() >= report["ttl_ms"].as_u64(), "{report:#}");
}

/// The tenant has no object that a drill creates.
pub(crate) async fn expect_no_traces(caller: &Caller) {
    for list in ["/workflow-runs", "/workflows", "/locks", "/jobs"] {
        assert_eq!(caller.get(list).await.expect(200).body["items"], json!([]), "{list}");
    }
}

#[test]
fn its_own_server_refuses_every_late_write_and_nothing_is_left() {
    let place = Place::new();
    let report = report(&place.drill(&["--json"]), 0);
    expect_held(&report);
    assert_eq!((&report["backend"], &report["guarded"]), (&json!("embedded"), &json!(true)));
    place.expect_empty();
}

#[tokio::test]
async fn an_existing_server_is_used_and_cleaned_up() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    let server = Server::start(folder.path());
    let named = ["--gateway", &server.base, "--tenant", "acme"];
    let output = place.drill(&named);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(printed.contains("held: after a pause of"), "{printed}");
    let late: Vec<_> = printed.lines().filter(|line| line.starts_with("holder late")).collect();
    assert_eq!(late.len(), LATE.len(), "{printed}");
    assert!(late.iter().all(|line| line.ends_with("  ok") && line.contains("refused")), "{printed}");
    assert!(!printed.contains('\u{1b}') && output.stderr.is_empty(), "{output:?}");
    expect_no_traces(&server.caller("acme")).await;
    place.expect_empty();
}

#[test]
fn an_unguarded_ledger_is_reported_as_broken() {
    let place = Place::new();
    let found = report(&place.drill(&["--unguarded", "--json"]), 1);
    assert_eq!(found["verdict"], "broken");
    assert_eq!(
        rows(&found, "broken"),
        [row("holder_late", "ledger_write"), row("afterwards", "ledger_order")],
        "{found:#}"
    );
    assert_eq!(rows(&found, "unknown"), []);
    place.expect_empty();
}

/// The broken rows of a drill behind a proxy that tampers with responses.
async fn broken_rows(tamper: Tamper) -> Vec<(String, String)> {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    let server = Server::start(folder.path());
    let proxy = TamperingProxy::start(&server.base, tamper).await;
    let arguments = ["--gateway", &proxy.base, "--json"].map(str::to_owned);
    let drill = tokio::task::spawn_blocking(move || {
        let output = place.drill(&arguments.each_ref().map(String::as_str));
        place.expect_empty();
        output
    });
    let found = report(&drill.await.unwrap(), 1);
    assert_eq!(found["verdict"], "broken");
    rows(&found, "broken")
}

#[tokio::test]
async fn an_accepted_late_completion_is_reported() {
    let tamper = |path: &str, _, code: &str| {
        (path.ends_with("/complete") && code == "stale_fence").then_some((200, json!({})))
    };
    assert_eq!(broken_rows(tamper).await, [row("holder_late", "job_complete")]);
}

#[tokio::test]
async fn an_accepted_late_renewal_is_reported() {
    let tamper = |path: &str, _, code: &str| {
        (path.ends_with("/locks/renew") && code == "stale_fence").then_some((200, json!({})))
    };
    assert_eq!(broken_rows(tamper).await, [row("holder_late", "lock_renew")]);
}

#[tokio::test]
async fn a_refused_live_holder_is_reported() {
    let tamper = |path: &str, status: u16, _: &str| {
        let refusal = json!({"type": "urn:interlock:error:stale_fence", "title": "", "status": 409, "detail": "",
            "code": "stale_fence", "error": "stale"});
        (path.ends_with("/progress") && status == 200).then_some((409, refusal))
    };
    assert_eq!(
        broken_rows(tamper).await,
        [row("holder_live", "job_progress"), row("contender", "job_progress")]
    );
}

#[tokio::test]
async fn an_interrupted_drill_ends_its_processes_and_cleans_up() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    for name in ["INT", "TERM"] {
        // The lease outlasts the test, so a lock that is free afterwards was released.
        let drill =
            place.begin(&["--gateway", &server.base, "--tenant", "acme", "--ttl-ms", "30000", "--json"]);
        until("the holder has the lock and the job", async || {
            let locks = caller.get("/locks").await.body["items"].as_array().unwrap().len();
            let jobs = caller.get("/jobs?state=running").await.body["items"].as_array().unwrap().len();
            (locks, jobs) == (1, 1)
        })
        .await;
        signal(drill.id(), name);
        let report = report(&drill.wait_with_output().unwrap(), 3);
        assert_eq!((&report["verdict"], &report["reason"]), (&json!("unknown"), &json!("interrupted")));
        expect_no_traces(&caller).await;
        place.expect_empty();
    }
}

#[tokio::test]
async fn the_participants_of_a_killed_drill_end_even_while_paused() {
    let place = Place::new();
    let mut reaper = Command::new("python3");
    reaper.args(["-c", REAPER, BINARY, "drill", "--ttl-ms", "30000"]).env("TMPDIR", place.0.path());
    let reaper = reaper.env_remove("INTERLOCK_GATEWAY").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut reaper = reaper.unwrap();
    until("the holder is paused", async || place.processes().iter().any(|found| found.is_paused)).await;
    let found = place.processes();
    assert_eq!(
        found.len(),
        4,
        "the reaper, the drill with its server, the holder and the contender: {found:?}"
    );
    let drill = found.iter().find(|found| found.command.starts_with(&format!("{BINARY} drill "))).unwrap();
    signal(drill.pid, "KILL");
    until("all but the reaper are gone", async || place.processes().len() == 1).await;
    drop(reaper.stdin.take());
    assert!(reaper.wait().unwrap().success());
}

#[test]
fn without_a_server_the_verdict_is_unknown() {
    let place = Place::new();
    let gateway = ["--gateway", "http://127.0.0.1:1", "--json"];
    let machines = ["--redis", "redis://127.0.0.1:1", "--nats", "nats://127.0.0.1:1", "--json"];
    for arguments in [&gateway[..], &machines[..]] {
        let report = report(&place.drill(arguments), 3);
        assert_eq!((&report["verdict"], &report["rows"]), (&json!("unknown"), &json!([])));
        assert!(report["reason"].as_str().unwrap().contains("127.0.0.1:1"), "{report}");
    }
    place.expect_empty();
}

#[test]
fn contradictory_and_invalid_flags_are_wrong_usage() {
    let place = Place::new();
    for line in [
        "--redis redis://127.0.0.1:1",
        "--nats nats://127.0.0.1:1",
        "--gateway http://127.0.0.1:1 --redis redis://127.0.0.1:1 --nats nats://127.0.0.1:1",
        "--gateway nonsense",
        "--ttl-ms 10",
        "--ttl-ms 60000",
    ] {
        let output = place.drill(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
    }
    place.expect_empty();
}

/// Output without the numbers that differ between drills.
fn timeless(text: &str) -> Vec<String> {
    let mask = |part: &str| {
        if part.len() > 3 && part.bytes().all(|byte| byte.is_ascii_digit()) { "#" } else { part }.to_owned()
    };
    let line = |line: &str| line.split_whitespace().map(mask).collect::<Vec<_>>().join(" ");
    text.lines().map(line).filter(|line| !line.is_empty()).collect()
}

#[tokio::test]
async fn the_drill_page_shows_the_real_output() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    let server = Server::start(folder.path());
    let page = read(PAGE);
    let shown = blocks(&page, "text");
    let (worked, printed) =
        walk_through::run(&server, &format!("{PATH}{}", blocks(&page, "sh walk-through").join("")));
    assert!(worked, "{printed}");
    let printed = timeless(&printed);
    for line in shown.iter().flat_map(|block| timeless(block)) {
        assert!(printed.contains(&line), "{line:?} is not in {printed:#?}");
    }
    // The page shows every row, plus the header and the summary.
    let rows = report(&place.drill(&["--json"]), 0)["rows"].as_array().unwrap().len();
    assert_eq!(timeless(&shown[0]).len(), rows + 2);
}
