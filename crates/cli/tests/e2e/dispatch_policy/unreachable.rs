//! The service becomes unreachable and returns, and the process that asked it dies.

use interlock_poll::until;
use serde_json::{Value, json};

use super::*;

fn allow(_: &Value) -> Value {
    json!({"decision": "allow", "more": "fields than we know"})
}

fn silence(_: &Value) -> Value {
    Value::Null
}

async fn fail_closed_waits_and_fail_open_continues(installation: &Installation, service: &mut PolicyService) {
    let (closed, open) = (installation.caller("closed-co"), installation.caller("open-co"));
    assert_eq!(installation.fail_opens().await, 0);
    for caller in [&closed, &open] {
        one_step(caller, "work", json!({})).await;
    }
    let waiting = started(&closed, "work").await;
    let continuing = started(&open, "work").await;

    assert_eq!(finish(&open, &continuing, "work").await["status"], "succeeded");
    let words = messages(&open, &continuing, "step_released").await;
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
    assert_eq!(messages(&closed, &waiting, "step_held").await.len(), 1, "the reason is written once");
    assert_eq!(messages(&closed, &waiting, "step_released").await, ["the policy service says allow"]);
    assert_eq!(installation.fail_opens().await, 1);
}

#[tokio::test]
async fn on_one_machine_fail_closed_waits_with_a_reason_and_fail_open_continues_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = PolicyService::stopped(allow).await;
    let config = configured(folder.path(), &service_at(&service, folder.path()));
    let installation = Installation::embedded(folder, &config);
    fail_closed_waits_and_fail_open_continues(&installation, &mut service).await;
}

#[tokio::test]
async fn on_many_machines_fail_closed_waits_with_a_reason_and_fail_open_continues_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = PolicyService::stopped(allow).await;
    let config = configured(folder.path(), &service_at(&service, folder.path()));
    let installation = Installation::distributed(folder, &config).await;
    fail_closed_waits_and_fail_open_continues(&installation, &mut service).await;
}

#[tokio::test]
async fn a_restarted_server_asks_again_about_a_held_job() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = PolicyService::started(silence).await;
    let config = configured(folder.path(), &service_at(&service, folder.path()));
    let data = folder.path().join("data");
    let server = Server::start_with(&data, &["--config", &config]);
    let caller = server.caller("acme");
    one_step(&caller, "work", json!({})).await;
    let run = started(&caller, "work").await;
    until("the service is asked", async || !service.questions().is_empty()).await;
    server.kill();
    service.stop().await;
    service.answer_with(allow);
    service.start().await;
    let server = Server::start_with(&data, &["--config", &config]);
    let caller = server.caller("acme");
    assert_eq!(finish(&caller, &run, "work").await["status"], "succeeded");
    let questions = service.questions();
    assert_eq!(questions.len(), 2);
    assert_eq!(questions[0], questions[1]);
}

#[tokio::test]
async fn three_replicas_ask_the_service_once_with_all_that_is_known() {
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
