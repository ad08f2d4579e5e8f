//! Rules and the service together: deny, approval, throttle.

use interlock_poll::until_matches;
use serde_json::{Value, json};

use super::*;

const RULES: &str = r#"
[[dispatch_policy.rules]]
name = "trusted"
topics = ["open.*"]
decision = "allow"

[[dispatch_policy.rules]]
name = "no-drops"
capabilities = ["db:drop"]
risk_tags = ["prod"]
decision = "deny"
reason = "ask the database team"

[[dispatch_policy.rules]]
name = "people-first"
tenants = ["acme"]
topics = ["deploy"]
decision = "require_approval"

[[dispatch_policy.rules]]
name = "slowly"
topics = ["mail"]
decision = "throttle"
dispatches = 2
period_ms = 3000
"#;

/// Decides where no rule does.
fn judge(question: &Value) -> Value {
    match question["topic"].as_str().unwrap() {
        "forbidden" => json!({"decision": "deny", "reason": "not today", "rule_id": "r7"}),
        "doubtful" => json!({"decision": "require_approval", "reason": "unclear"}),
        "later" => json!({"decision": "throttle", "retry_after_ms": 3_600_000}),
        _ => json!({"decision": "allow"}),
    }
}

async fn denied(caller: &Caller, run: &str, words: &str) {
    let ended = caller.ended(run).await;
    assert_eq!(ended["status"], "denied", "{ended}");
    assert_eq!(ended["error"]["message"], words, "{ended}");
    assert_eq!(ended["steps"]["step"]["status"], "denied");
    let job = job_when(caller, run, |_| true).await;
    assert_eq!((&job["state"], &job["waiting_for"]), (&json!("denied"), &Value::Null));
}

async fn deny_ends_the_run(installation: &Installation) {
    let caller = installation.caller("acme");
    let meta = json!({"meta": {"capability": "db:drop", "risk_tags": ["prod"]}});
    one_step(&caller, "drop", meta).await;
    one_step(&caller, "forbidden", json!({})).await;
    let run = started(&caller, "drop").await;
    denied(&caller, &run, "rule no-drops says deny: ask the database team").await;
    assert_eq!(messages(&caller, &run, "step_denied").await.len(), 1);
    let run = started(&caller, "forbidden").await;
    denied(&caller, &run, "the policy service (rule r7) says deny: not today").await;
}

async fn a_person_decides(installation: &Installation, topic: &str, words: &str) {
    let caller = installation.caller("acme");
    one_step(&caller, topic, json!({})).await;
    for is_approved in [true, false] {
        let run = started(&caller, topic).await;
        caller.when(&run, |run| run["status"] == "waiting").await;
        let job = held_for(&caller, &run, "approval").await;
        assert_eq!(job["waiting_for"]["detail"], words);
        assert!(nothing_to_claim(&caller, topic).await);
        let open = caller.get("/approvals").await.expect(200).body;
        let open = open["items"].as_array().unwrap();
        assert_eq!(open.len(), 1, "{open:?}");
        assert_eq!((&open[0]["job_id"], &open[0]["input"]), (&job["job_id"], &json!({"n": 1})));
        let verdict = if is_approved { "approve" } else { "reject" };
        let path = format!("/approvals/{run}:step@1/{verdict}");
        // At another replica, if there is one.
        let other = installation.servers.last().unwrap().caller("acme");
        for _ in 0..2 {
            other.post(&path, json!({"reason": "because"})).await.expect(200);
        }
        if is_approved {
            assert_eq!(finish(&caller, &run, topic).await["status"], "succeeded");
            assert_eq!(messages(&caller, &run, "step_approved").await.len(), 1);
        } else {
            assert_eq!(caller.ended(&run).await["status"], "denied");
            assert!(nothing_to_claim(&caller, topic).await);
        }
    }
}

async fn a_throttle_releases_the_next_jobs_with_the_next_period(installation: &Installation) {
    let caller = installation.caller("acme");
    one_step(&caller, "mail", json!({})).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(started(&caller, "mail").await);
    }
    let held =
        async || caller.get("/jobs?state=held").await.expect(200).body["items"].as_array().unwrap().clone();
    let is_one_throttled =
        |held: &Vec<Value>| held.len() == 1 && held[0]["waiting_for"]["reason"] == "policy_throttled";
    let held = until_matches("one job is throttled", held, is_one_throttled).await[0]["run_id"].clone();
    let mut claimed = Vec::new();
    while claimed.len() < 3 {
        let jobs = caller.claim("w", "mail", 3).await;
        for job in jobs {
            caller.complete(&job, &json!({})).await.expect(200);
            claimed.push(job["run_id"].clone());
        }
    }
    assert_eq!(claimed[2], held);
    assert_eq!(messages(&caller, held.as_str().unwrap(), "step_held").await.len(), 1);
}

async fn a_job_waits_for_a_throttling_service_unless_a_rule_allows_it(installation: &Installation) {
    let caller = installation.caller("acme");
    one_step(&caller, "later", json!({})).await;
    one_step(&caller, "open.all", json!({})).await;
    let run = started(&caller, "later").await;
    held_for(&caller, &run, "policy_throttled").await;
    caller.post(&format!("/workflow-runs/{run}/cancel"), Value::Null).await.expect(204);
    let job = job_when(&caller, &run, |job| job["state"] == "cancelled").await;
    assert_eq!(job["waiting_for"], Value::Null);
    let run = started(&caller, "open.all").await;
    assert_eq!(finish(&caller, &run, "open.all").await["status"], "succeeded");
}

async fn everything(installation: &Installation, service: &PolicyService) {
    deny_ends_the_run(installation).await;
    a_person_decides(installation, "deploy", "rule people-first says require_approval").await;
    a_person_decides(installation, "doubtful", "the policy service says require_approval: unclear").await;
    a_throttle_releases_the_next_jobs_with_the_next_period(installation).await;
    a_job_waits_for_a_throttling_service_unless_a_rule_allows_it(installation).await;
    let questions = service.questions();
    let by_topic = |topic: &str| questions.iter().filter(|question| question["topic"] == topic).count();
    let decided_by_rules = ["drop", "deploy", "mail", "open.all"].map(by_topic);
    assert_eq!(decided_by_rules, [0; 4], "the service was asked although a rule decides");
    assert_eq!((by_topic("forbidden"), by_topic("doubtful")), (1, 2));
}

fn policy(service: &PolicyService, folder: &Path) -> String {
    format!("{}{RULES}", service_at(service, folder))
}

#[tokio::test]
async fn on_one_machine_rules_and_the_service_decide_together() {
    let folder = tempfile::tempdir().unwrap();
    let service = PolicyService::started(judge).await;
    let config = configured(folder.path(), &policy(&service, folder.path()));
    everything(&Installation::embedded(folder, &config), &service).await;
}

#[tokio::test]
async fn on_many_machines_rules_and_the_service_decide_together() {
    let folder = tempfile::tempdir().unwrap();
    let service = PolicyService::started(judge).await;
    let config = configured(folder.path(), &policy(&service, folder.path()));
    everything(&Installation::distributed(folder, &config).await, &service).await;
}

#[tokio::test]
async fn a_server_does_not_start_with_an_invalid_policy() {
    let folder = tempfile::tempdir().unwrap();
    for (policy, words) in [
        ("[dispatch_policy]\nrulez = []\n", "unknown field"),
        ("[[dispatch_policy.rules]]\nname = \"a\"\ndecision = \"deny\"\ntopic = \"x\"\n", "unknown field"),
        ("[[dispatch_policy.rules]]\nname = \"a\"\ndecision = \"throttle\"\n", "requires `dispatches`"),
        (
            "[dispatch_policy.service]\nurl = \"ftp://x\"\nfailure = \"open\"\n",
            "expected an http or https URL",
        ),
        ("[dispatch_policy.service]\nurl = \"http://x\"\n", "missing field `failure`"),
    ] {
        let config = configured(folder.path(), policy);
        let data = folder.path().join("data");
        let output = std::process::Command::new(crate::server::BINARY)
            .args(["serve", "--listen", "127.0.0.1:0", "--config", &config, "--data"])
            .arg(data)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(printed.contains(words), "{policy}: {printed}");
    }
}

// The commands block a thread, and the service needs another.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_explains_a_decision_and_shows_what_is_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let service = PolicyService::started(judge).await;
    let config = configured(folder.path(), &policy(&service, folder.path()));
    let installation = Installation::embedded(folder, &config);
    let ask = |arguments: &[&str]| {
        let output = std::process::Command::new(crate::server::BINARY)
            .args(["--gateway", &installation.servers[0].base, "--tenant", "globex", "dispatch-policy"])
            .args(arguments)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, printed) = ask(&["check", "--topic", "x", "--capability", "db:drop", "--risk-tag", "prod"]);
    assert_eq!(code, Some(0), "{printed}");
    for words in ["trusted", "another topic", "no-drops", "matches and decides", "ask the database team"] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
    assert!(!printed.contains("people-first"), "rules after the deciding one are not evaluated: {printed}");
    let (code, printed) = ask(&["--json", "check", "--topic", "deploy"]);
    let check: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, &check["decision"]), (Some(0), &json!("allow")), "{printed}");
    assert!(
        !printed.contains("people-first") && !printed.contains("acme"),
        "another tenant's rule: {printed}"
    );
    let (code, printed) = ask(&["show"]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("slowly") && printed.contains("/decide (breaker closed"), "{printed}");
    assert!(!printed.contains(TOKEN) && !printed.contains("people-first"), "{printed}");
    assert_eq!(ask(&["check"]).0, Some(2));
    let status = installation.caller("globex").get("/status").await.expect(200).body;
    assert_eq!(status["policies"]["dispatch_policy"]["rules"], 4);
}
