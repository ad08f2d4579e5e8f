//! The metrics and the alert rules, checked by Prometheus' own tool.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use interlock_poll::until;
use interlock_servers::promtool;
use reqwest::Method;
use serde_json::json;

use super::expressions::{assert_served, served};
use super::machines::Machines;
use super::server::{Caller, Server};
use super::walk_through::{blocks, read, root, run};

const RULES: &str = "deploy/alerts/interlock.rules.yml";
const UNIT_TESTS: &str = "deploy/alerts/interlock.rules.test.yml";
const PAGE: &str = "docs/operating/alerts.md";

/// The metrics whose documented names break the tool's rules.
const DOCUMENTED: [&str; 4] =
    ["job_result_latency_ms", "lock_busy_retry_count", "lock_busy_retry_delay_ms", "run_lock_wait_ms"];

pub(crate) async fn scrape(server: &Server) -> String {
    reqwest::get(format!("{}/metrics", server.base)).await.unwrap().text().await.unwrap()
}

/// Causes an event of each kind that is counted by label.
pub(crate) async fn use_it(caller: &Caller) {
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    caller.limit(1).await;
    let run = caller.start("job", Some("k"), &json!({})).await.expect(200).text("run_id");
    caller.start("job", Some("k"), &json!({})).await.expect(200);
    caller.start("job", None, &json!({})).await.expect(429);
    let job = caller.claim("w", "work", 1).await.remove(0);
    caller.complete(&job, &json!({})).await.expect(200);
    caller.ended(&run).await;
    caller.post(&format!("/workflow-runs/{run}/rerun"), json!({})).await.expect(200);
    let budget = json!({"unit": "usd", "amount": "20", "per": "day"});
    caller.try_send(Method::PUT, "/budgets/llm", None, &budget).await.unwrap().expect(200);
    caller.get("/nowhere").await.expect(404);
}

/// What `promtool check metrics` finds.
fn findings(metrics: &str) -> BTreeSet<String> {
    let mut check = Command::new(promtool().unwrap());
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.spawn().unwrap();
    check.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    String::from_utf8(output.stderr).unwrap().lines().map(str::to_owned).collect()
}

fn assert_only_documented(metrics: &str) {
    let findings = findings(metrics);
    let named: BTreeSet<&str> = findings.iter().filter_map(|finding| finding.split(' ').next()).collect();
    assert_eq!(named, BTreeSet::from(DOCUMENTED), "{findings:?}");
}

fn promtool_on(arguments: &[&str], file: &str) -> Output {
    Command::new(promtool().unwrap()).args(arguments).arg(root().join(file)).output().unwrap()
}

/// The value of `field:` in every rule, which is a line or a block.
fn of_each_rule(field: &str) -> Vec<String> {
    let rules = read(RULES);
    let rules = rules.split("- alert: ").skip(1).filter_map(|rule| rule.split("\n\n").next());
    let values = rules.map(|rule| {
        let (_, rest) = rule.split_once(&format!("{field}:")).unwrap_or_else(|| panic!("no {field}: {rule}"));
        // Up to the next field, which begins a line and ends in a colon.
        let lines = rest.lines().enumerate();
        let is_field =
            |line: &str| line.trim_start().split(' ').next().is_some_and(|word| word.ends_with(':'));
        let own = lines.take_while(|(number, line)| *number == 0 || !is_field(line));
        own.map(|(_, line)| line.trim()).collect::<Vec<_>>().join(" ").trim().to_owned()
    });
    values.collect()
}

fn alerts() -> Vec<String> {
    read(RULES).lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(str::to_owned).collect()
}

#[tokio::test]
async fn promtool_accepts_the_metrics_of_one_machine_except_documented_names() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    assert_only_documented(&scrape(&server).await);
    use_it(&server.caller("acme")).await;
    assert_only_documented(&scrape(&server).await);
}

#[tokio::test]
async fn promtool_accepts_the_metrics_of_a_replica_except_documented_names() {
    let machines = Machines::start(1).await;
    use_it(&machines.callers("acme")[0]).await;
    assert_only_documented(&scrape(&machines.replicas[0]).await);
}

#[test]
fn promtool_finds_a_metric_that_breaks_its_rules() {
    let broken = "# HELP starts Starts\n# TYPE starts counter\nstarts 1\n";
    assert_eq!(findings(broken).len(), 1);
}

#[test]
fn the_rules_pass_promtool_and_their_unit_tests() {
    for (arguments, file) in [(["check", "rules"], RULES), (["test", "rules"], UNIT_TESTS)] {
        let output = promtool_on(&arguments, file);
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("SUCCESS"), "{output:?}");
    }
}

#[test]
fn the_unit_tests_show_every_alert_firing_and_silent() {
    let tests = read(UNIT_TESTS);
    for alert in alerts() {
        let name = format!("alertname: {alert}\n");
        let named = tests.split(&name).skip(1);
        let (silent, firing): (Vec<&str>, Vec<&str>) =
            named.partition(|rest| rest.trim_start().starts_with("exp_alerts: []"));
        assert!(!firing.is_empty() && !silent.is_empty(), "{alert}");
    }
}

#[tokio::test]
async fn every_metric_of_an_alert_is_served_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = scrape(&Server::start(folder.path())).await;
    for expression in of_each_rule("expr") {
        // A block begins with `|`.
        assert_served(expression.trim_start_matches('|'), &served(&metrics));
    }
}

#[test]
fn every_alert_has_a_summary_and_a_section_on_what_to_do() {
    let page = read(PAGE);
    let alerts = alerts();
    assert!(alerts.len() >= 17, "{alerts:?}");
    assert_eq!(of_each_rule("summary").len(), alerts.len());
    assert!(of_each_rule("description").iter().all(|text| text.contains("{{ $labels.job }}")));
    for (alert, link) in alerts.iter().zip(of_each_rule("runbook_url")) {
        assert_eq!(link, format!("{PAGE}#{}", alert.to_lowercase()));
        let section = page.split("\n## ").find_map(|section| section.strip_prefix(&format!("{alert}\n")));
        let section = section.unwrap_or_else(|| panic!("{alert} has no section"));
        assert!(section.contains("\n```sh alerts"), "{alert} has no commands");
    }
}

#[tokio::test]
async fn the_commands_of_the_page_work() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    use_it(&server.caller("default")).await;
    let tool = promtool().unwrap();
    let path = format!(
        "set -o pipefail\nexport PATH=\"$PWD/target/release:{}:$PATH\"\n",
        tool.parent().unwrap_or(Path::new(".")).display()
    );
    let commands = blocks(&read(PAGE), "sh alerts");
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        let (worked, printed) = run(&server, &format!("{path}{command}"));
        assert!(worked && !printed.trim().is_empty(), "{command}: {printed}");
    }
}

#[tokio::test]
async fn a_replica_reports_whether_it_reaches_redis_and_nats() {
    let mut machines = Machines::start(1).await;
    let shown = async |machines: &Machines, line: &str| {
        let is_shown = async || scrape(&machines.replicas[0]).await.lines().any(|shown| shown == line);
        until(&format!("{line} is shown"), is_shown).await;
    };
    shown(&machines, "store_up 1").await;
    shown(&machines, "bus_up 1").await;
    machines.nats.kill().await.unwrap();
    shown(&machines, "bus_up 0").await;
    shown(&machines, "store_up 1").await;
    machines.redis.kill().await.unwrap();
    shown(&machines, "store_up 0").await;
}

/// The names of the labels in `{…}`, except those that a scrape or a histogram adds.
fn labels_of(series: &str) -> BTreeSet<String> {
    let inside = series.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(it, _)| it);
    let names = inside.split(',').filter_map(|pair| pair.split_once('=')).map(|(name, _)| name.trim());
    names.filter(|name| !["job", "instance", "le"].contains(name)).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_series_of_the_rule_tests_have_the_labels_that_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    use_it(&server.caller("acme")).await;
    let metrics = scrape(&server).await;
    let name_of = |series: &str| series.split(['{', ' ']).next().unwrap_or_default().to_owned();
    for line in read(UNIT_TESTS).lines().filter_map(|line| line.trim().strip_prefix("- series: '")) {
        let (name, labels) = (name_of(line), labels_of(line));
        let shown: Vec<_> = metrics.lines().filter(|shown| name_of(shown) == name).map(labels_of).collect();
        assert!(shown.contains(&labels), "{line}: served with {shown:?}");
    }
}
