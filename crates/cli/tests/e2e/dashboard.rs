//! The Grafana dashboard: its expressions parse, and every metric in them is served.

use std::collections::BTreeSet;
use std::process::Command;

use interlock_servers::promtool;
use serde_json::{Value, json};

use super::alerts::{scrape, use_it};
use super::expressions::{assert_served, metrics_in, served};
use super::server::Server;
use super::walk_through::read;

const DASHBOARD: &str = "deploy/grafana/interlock.json";

/// Metrics that a panel must show.
const SHOWN: [&str; 16] = [
    "active_runs",
    "active_runs_max",
    "admission_wait_seconds_bucket",
    "admissions_total",
    "bus_up",
    "cordum_scheduler_input_fail_open_total",
    "dead_letters",
    "fence_rejections_total",
    "http_request_duration_seconds_bucket",
    "job_lock_wait_bucket",
    "job_result_latency_ms_bucket",
    "loop_ticks_total",
    "orphan_replayed_total",
    "run_lock_wait_ms_bucket",
    "stale_jobs",
    "store_up",
];

fn dashboard() -> Value {
    serde_json::from_str(&read(DASHBOARD)).unwrap()
}

/// The panels with expressions.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let panels = dashboard["panels"].as_array().unwrap();
    panels.iter().filter(|panel| panel["type"] != "row").collect()
}

/// The expressions of the panels, with values for Grafana's variables.
fn expressions(dashboard: &Value) -> Vec<String> {
    let targets = panels(dashboard).into_iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let filled = targets.map(|target| {
        let expression = target["expr"].as_str().unwrap().replace("$__rate_interval", "5m");
        expression.replace("$job", "interlock").replace("$tenant", "acme")
    });
    filled.collect()
}

#[test]
fn every_expression_parses() {
    let expressions = expressions(&dashboard());
    assert!(expressions.len() >= 25, "{expressions:?}");
    assert!(expressions.iter().all(|expression| !expression.contains('$')), "{expressions:?}");
    let rules = |(number, expression): (usize, &String)| json!({"record": format!("panel:{number}"), "expr": expression});
    let rules: Vec<_> = expressions.iter().enumerate().map(rules).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yml");
    // JSON is valid YAML.
    std::fs::write(&file, json!({"groups": [{"name": "dashboard", "rules": rules}]}).to_string()).unwrap();
    let output = Command::new(promtool().unwrap()).args(["check", "rules"]).arg(file).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(printed.contains(&format!("SUCCESS: {} rules found", expressions.len())), "{printed}");
}

#[tokio::test]
async fn every_metric_of_the_dashboard_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    use_it(&server.caller("acme")).await;
    let metrics = scrape(&server).await;
    for expression in expressions(&dashboard()) {
        assert_served(&expression, &served(&metrics));
    }
}

#[test]
fn the_panels_show_what_operators_need() {
    let shown: BTreeSet<String> =
        expressions(&dashboard()).iter().flat_map(|expression| metrics_in(expression)).collect();
    for metric in SHOWN {
        assert!(shown.contains(metric), "{metric} is on no panel");
    }
}

#[test]
fn panels_have_unique_ids_and_do_not_overlap() {
    let dashboard = dashboard();
    let all = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = all.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), all.len());
    let mut taken = BTreeSet::new();
    for panel in all {
        let at = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{}", panel["title"]);
        for (x, y) in
            (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
        {
            assert!(taken.insert((x, y)), "{} lies on another panel", panel["title"]);
        }
    }
}

#[test]
fn each_panel_has_a_description_and_uses_the_chosen_data_source() {
    let dashboard = dashboard();
    for panel in panels(&dashboard) {
        assert!(panel["description"].as_str().is_some_and(|text| text.ends_with('.')), "{}", panel["title"]);
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
            assert!(target["expr"].as_str().unwrap().contains("job=~\"$job\""), "{}", panel["title"]);
        }
    }
    let variables: Vec<&Value> = dashboard["templating"]["list"].as_array().unwrap().iter().collect();
    assert_eq!(
        variables.iter().map(|variable| &variable["name"]).collect::<Vec<_>>(),
        ["datasource", "job", "tenant"]
    );
}
