//! Workflow documents of people who come from Cordum: accepted, run and shown.

use serde_json::{Value, json};

use super::commands::Shell;
use super::server::{Caller, Server};
use super::walk_through;

fn example(name: &str) -> String {
    walk_through::root().join("examples/from-cordum").join(name).display().to_string()
}

/// Claims one job as a worker that can do everything, and completes it.
async fn work(caller: &Caller, topic: &str, output: Value) -> Value {
    let claim = json!({"topics": [topic], "wait_ms": 20_000, "capabilities": ["llm", "deploy", "placement.region:eu"]});
    let answer = caller.post("/workers/w/claim", claim).await.expect(200);
    let job = answer.body["jobs"][0].clone();
    assert!(job.is_object(), "a job of {topic}");
    let path = format!("/jobs/{}/complete", job["job_id"].as_str().unwrap());
    caller.post(&path, json!({"fence": job["fence"], "output": output})).await.expect(200);
    job
}

#[tokio::test]
async fn an_exported_document_is_accepted_run_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let shell = Shell { server: &server, tenant: "default" };
    assert_eq!(shell.print(&["workflow", "create", "--file", &example("triage.json")]), "triage");
    let saved = shell.json(&["workflow", "get", "triage"]);
    for (member, expected) in [
        ("version", json!(1)),
        ("author_version", json!("1.4.0")),
        ("org_id", json!("default")),
        ("team_id", json!("support")),
        ("created_by", json!("ann@example.com")),
        ("config", json!({"models": {"default": "small"}, "retention_days": 30})),
        ("labels", json!({"tier": "gold"})),
    ] {
        assert_eq!(saved[member], expected, "{member}");
    }
    assert_eq!(saved["parameters"][0]["name"], "incident");
    assert_eq!(saved["steps"]["classify"]["name"], "Classify the incident");
    let input = r#"{"incident": {"text": "it is slow", "service": "shop"}}"#;
    let run = shell.print(&["run", "start", "triage", "--input", input]);
    let caller = server.caller("default");
    let job = work(&caller, "job.llm", json!({"data": {"choice": {"kind": "outage"}}, "usage": 3})).await;
    let labels = json!({"cost-centre": "support", "placement.region": "eu", "preferred_pool": "small-models",
                        "worker_id": "classifier"});
    assert_eq!(job["labels"], labels);
    assert_eq!(job["input"]["prompt"], "Classify: it is slow");
    caller.when(&run, |run| run["status"] == "waiting").await;
    shell.print(&["approval", "job", &format!("{run}:ask@1"), "--approve"]);
    assert_eq!(work(&caller, "job.script", json!({"done": true})).await["input"]["service"], "shop");
    let ended = caller.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(
        ended["steps"]["classify"]["output"],
        json!({"kind": "outage"}),
        "the part that the document names"
    );
    assert_eq!(ended["context"]["triage"], json!({"class": {"kind": "outage"}}));
    assert_eq!(ended["steps"]["answer"]["status"], "skipped");
}

#[tokio::test]
async fn a_worker_without_the_label_does_not_get_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let shell = Shell { server: &server, tenant: "default" };
    shell.print(&["workflow", "create", "--file", &example("triage.json")]);
    shell.print(&["run", "start", "triage", "--input", r#"{"incident": {"text": "x"}}"#]);
    let claim = |capabilities: Value| json!({"topics": ["job.llm"], "capabilities": capabilities});
    let caller = server.caller("default");
    let other =
        caller.post("/workers/w/claim", claim(json!(["llm", "placement.region:us"]))).await.expect(200);
    assert_eq!(other.body["jobs"], json!([]));
    let right =
        caller.post("/workers/w/claim", claim(json!(["llm", "placement.region:eu"]))).await.expect(200);
    assert_eq!(right.body["jobs"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_document_of_another_tenant_is_forbidden() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let refused =
        Shell { server: &server, tenant: "acme" }.run(&["workflow", "create", "-f", &example("triage.json")]);
    assert_eq!(refused.status.code(), Some(1));
    let document: Value =
        serde_json::from_str(&walk_through::read("examples/from-cordum/triage.json")).unwrap();
    let answer = server.caller("acme").post("/workflows", document).await.expect(403);
    assert_eq!(answer.text("code"), "forbidden");
    assert!(answer.text("error").contains("org_id"), "{answer:?}");
}

#[tokio::test]
async fn a_release_with_its_deployment_runs_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let shell = Shell { server: &server, tenant: "default" };
    for name in ["deploy.yaml", "release.yaml"] {
        shell.print(&["workflow", "create", "--file", &example(name)]);
    }
    assert!(shell.print(&["workflow", "graph", "release"]).contains("for each of input.targets, 2 at once"));
    let run =
        shell.print(&["run", "start", "release", "--input", r#"{"targets": ["linux", "mac", "windows"]}"#]);
    let caller = server.caller("default");
    for target in ["linux", "mac", "windows"] {
        work(&caller, "job.container", json!({"file": target})).await;
    }
    let test = work(&caller, "job.test", json!({})).await;
    assert_eq!(test["input"]["artifacts"].as_array().map(Vec::len), Some(3), "{test}");
    let deploy = work(&caller, "job.deploy", json!({"url": "https://example.com"})).await;
    let plan = json!({"first": {"file": "linux"}, "count": 3, "by": "default"});
    assert_eq!(deploy["input"], json!({"plan": plan}));
    assert_eq!(caller.ended(&run).await["status"], "succeeded");
}

#[tokio::test]
async fn the_commands_of_the_page_about_cordum_work() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let page = walk_through::read("docs/coming-from-cordum.md");
    let (worked, printed) = walk_through::run(&server, &walk_through::blocks(&page, "sh").join("\n"));
    assert!(worked, "{printed}");
    assert!(printed.contains("is valid: workflow triage, 7 steps"), "{printed}");
    assert!(printed.contains("flowchart TD"), "{printed}");
    assert!(printed.contains("\"author_version\": \"1.4.0\""), "{printed}");
}
