//! The service goes away and comes back, and the process that asked it dies.

use serde_json::{Value, json};

use super::*;

fn allow(_: &Value) -> Value {
    json!({"decision": "allow", "more": "than we know"})
}

fn silence(_: &Value) -> Value {
    Value::Null
}

async fn fail_closed_waits_and_fail_open_goes_on(installation: &Installation, service: &mut PolicyService) {
    let (closed, open) = (installation.caller("closed-co"), installation.caller("open-co"));
    assert_eq!(installation.fail_opens().await, 0);
    for caller in [&closed, &open] {
        one_step(caller, "work", json!({})).await;
    }
    let waiting = started(&closed, "work").await;
    let goes_on = started(&open, "work").await;

    assert_eq!(finish(&open, &goes_on, "work").await["status"], "succeeded");
    let words = told(&open, &goes_on, "step_released").await;
    assert!(
        words.len() == 1 && words[0].contains("unavailable since") && words[0].contains("fail-open"),
        "{words:?}"
    );
    assert_eq!(installation.fail_opens().await, 1);

    let job = held_for(&closed, &waiting, "policy_unavailable").await;
    let detail = job["waiting_for"]["detail"].as_str().unwrap();
    assert!(detail.starts_with("policy service unavailable since 20"), "{detail}");
    assert!(nothing_to_claim(&closed, "work").await);
    let check = closed.post("/dispatch-policy/check", json!({"topic": "work"})).await.expect(200).body;
    assert_eq!((&check["decision"], &check["service"]["failure"]), (&json!("wait"), &json!("closed")));
    let check = open.post("/dispatch-policy/check", json!({"topic": "work"})).await.expect(200).body;
    assert_eq!((&check["decision"], &check["service"]["failure"]), (&json!("allow"), &json!("open")));

    service.start().await;
    assert_eq!(finish(&closed, &waiting, "work").await["status"], "succeeded");
    assert_eq!(told(&closed, &waiting, "step_held").await.len(), 1, "the reason is told once");
    assert_eq!(told(&closed, &waiting, "step_released").await, ["the policy service says allow"]);
    assert_eq!(installation.fail_opens().await, 1);
}

#[tokio::test]
async fn on_one_machine_fail_closed_waits_with_a_reason_and_fail_open_goes_on_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = PolicyService::stopped(allow).await;
    let config = configured(folder.path(), &service_at(&service, folder.path()));
    let installation = Installation::embedded(folder, &config);
    fail_closed_waits_and_fail_open_goes_on(&installation, &mut service).await;
}

#[tokio::test]
async fn on_many_machines_fail_closed_waits_with_a_reason_and_fail_open_goes_on_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = PolicyService::stopped(allow).await;
    let config = configured(folder.path(), &service_at(&service, folder.path()));
    let installation = Installation::distributed(folder, &config).await;
    fail_closed_waits_and_fail_open_goes_on(&installation, &mut service).await;
}

#[tokio::test]
async fn a_job_whose_asker_was_killed_is_asked_about_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = PolicyService::started(silence).await;
    let config = configured(folder.path(), &service_at(&service, folder.path()));
    let data = folder.path().join("data");
    let server = Server::start_with(&data, &["--config", &config]);
    let caller = server.caller("acme");
    one_step(&caller, "work", json!({})).await;
    let run = started(&caller, "work").await;
    let until = Instant::now() + LIMIT;
    while service.questions().is_empty() {
        assert!(Instant::now() < until, "nobody asked");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.kill();
    service.stop().await;
    service.answer_with(allow);
    service.start().await;
    let server = Server::start_with(&data, &["--config", &config]);
    let caller = server.caller("acme");
    assert_eq!(finish(&caller, &run, "work").await["status"], "succeeded");
    let asked = service.questions();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0], asked[1], "it is the same question");
}

#[tokio::test]
async fn the_service_is_told_all_that_is_known_and_asked_once_by_three_replicas() {
    let folder = tempfile::tempdir().unwrap();
    let service = PolicyService::started(allow).await;
    let config = configured(folder.path(), &service_at(&service, folder.path()));
    let installation = Installation::distributed(folder, &config).await;
    let caller = installation.caller("acme");
    let meta =
        json!({"meta": {"capability": "db:write", "risk_tags": ["prod", "pii"], "priority": "critical"}});
    one_step(&caller, "work", meta).await;
    let run = started(&caller, "work").await;
    assert_eq!(finish(&caller, &run, "work").await["status"], "succeeded");
    let expected = json!({
        "tenant": "acme", "run_id": run, "job_id": format!("{run}:step@1"), "step_id": "step", "workflow_id": "work",
        "topic": "work", "capability": "db:write", "risk_tags": ["pii", "prod"], "requires": [],
        "priority": "critical", "attempt": 1,
    });
    assert_eq!(service.questions(), [expected]);
}
