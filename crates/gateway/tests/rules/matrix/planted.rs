//! A tenant with one of everything that a route can name.

use std::collections::{BTreeMap, BTreeSet};

use interlock_backend::keys::KeyScope;
use interlock_backend::verbs::{AddDeadLetter, ListApiKeys};
use interlock_model::Timestamp;
use interlock_model::dead_letter::{DeadLetter, LetterCode};
use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::server::Server;

/// The key of the operator, which covers every tenant.
pub(super) const ROOT: &str = "root";

/// Values by name. A row of the table names those that its request contains.
#[derive(Debug, Clone)]
pub(super) struct Planted(BTreeMap<&'static str, String>);

/// Values that anyone may see: others have them, too.
const SHARED: [&str; 3] = ["everywhere", "fence", "tenant"];

pub(super) fn as_root(request: Request, tenant: &str) -> Request {
    request.header("x-api-key", ROOT).header("x-tenant-id", tenant)
}

async fn post(server: &Server, tenant: &str, path: &str, body: &Value) -> Answer {
    as_root(server.post(&format!("/api/v1/{path}")), tenant).json(body).send().await
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

impl Planted {
    /// Plants everything. `mark` is in every text that the tenant chooses.
    pub(super) async fn new(server: &Server, tenant: &str, mark: &str) -> Self {
        let named = |what: &str| format!("{mark}-{what}");
        let mut values =
            BTreeMap::from([("tenant", tenant.to_owned()), ("everywhere", "everywhere".to_owned())]);
        for what in [
            "workflow", "worker", "topic", "resource", "owner", "input", "keyname", "message", "limit",
            "budget",
        ] {
            values.insert(what, named(what));
        }
        let mut planted = Self(values);
        planted.plant_runs(server, tenant).await;
        planted.plant_dead_letter(server, tenant).await;
        planted.plant_queued_run(server, tenant, &named("lined")).await;
        let lock =
            json!({"resource": planted.get("resource"), "owner": planted.get("owner"), "ttl_ms": 600_000});
        let granted = post(server, tenant, "locks/acquire", &lock).await.ok(200);
        planted.0.insert("token", text(&granted["token"]));
        // Of no tenant, and about no workflow of theirs.
        let everywhere = json!({"applies_to": {"workflows": ["elsewhere"]}, "max_runs": 1});
        let put = server.put("/api/v1/system/limits/everywhere");
        as_root(put, tenant).json(&everywhere).send().await.ok(200);
        let budget = format!("/api/v1/budgets/{}", planted.get("budget"));
        let document = json!({"unit": planted.get("message"), "amount": "5", "per": "total"});
        as_root(server.put(&budget), tenant).json(&document).send().await.ok(200);
        let reservation = json!({"amount": "1", "ttl_ms": 3_600_000, "request_id": "planted"});
        let reserve = format!("budgets/{}/reserve", planted.get("budget"));
        let permit = post(server, tenant, &reserve, &reservation).await.ok(200);
        planted.0.insert("permit", text(&permit["permit"]));
        let key = json!({"name": planted.get("keyname"), "role": "viewer", "tenant": tenant});
        let created = post(server, tenant, "keys", &key).await.ok(201);
        planted.0.insert("key", text(&created["id"]));
        planted
    }

    /// A run whose job is leased, one that waits for an approval, and one that has ended.
    async fn plant_runs(&mut self, server: &Server, tenant: &str) {
        let (workflow, worker) = (self.get("workflow").to_owned(), self.get("worker").to_owned());
        let work = json!({"type": "worker", "topic": self.get("topic"), "input": {"kept": "${input.text}"}});
        let ask = json!({"type": "approval", "input": {"kept": "${input.text}"}});
        let wait = json!({"type": "wait_event", "event": {"name": "go"}});
        let steps = json!({"work": work, "ask": ask, "wait": wait});
        let document = json!({"id": workflow, "name": self.get("message"), "steps": steps});
        post(server, tenant, "workflows", &document).await.ok(201);
        let start = async |server: &Server| {
            let input = json!({"text": self.get("input")});
            let started = post(server, tenant, &format!("workflows/{workflow}/runs"), &input).await;
            text(&started.ok(200)["run_id"])
        };
        let ended = start(server).await;
        post(server, tenant, &format!("workflow-runs/{ended}/cancel"), &json!({})).await.ok(204);
        let run = start(server).await;
        let claim =
            json!({"topics": [self.get("topic")], "max_jobs": 1, "wait_ms": 60_000, "lease_ms": 600_000});
        let claimed = post(server, tenant, &format!("workers/{worker}/claim"), &claim).await.ok(200);
        let job = &claimed["jobs"][0];
        assert_eq!(job["run_id"], run, "the jobs of a cancelled run are not given out");
        self.0.insert("approval", format!("{run}:ask@1"));
        self.0.extend([("run", run), ("ended", ended), ("job", text(&job["job_id"]))]);
        self.0.insert("fence", job["fence"].to_string());
    }

    /// A run that waits for a limit.
    async fn plant_queued_run(&mut self, server: &Server, tenant: &str, workflow: &str) {
        let steps = json!({"ask": {"type": "approval"}});
        let document = json!({"id": workflow, "name": "lined", "steps": steps});
        post(server, tenant, "workflows", &document).await.ok(201);
        let limit = json!({"applies_to": {"workflows": [workflow]}, "max_runs": 0, "on_full": "queue"});
        let put = server.put(&format!("/api/v1/limits/{}", self.get("limit")));
        as_root(put, tenant).json(&limit).send().await.ok(200);
        let queued = post(server, tenant, &format!("workflows/{workflow}/runs"), &json!({})).await.ok(202);
        self.0.insert("queued", text(&queued["run_id"]));
        self.0.insert("lined", workflow.to_owned());
    }

    async fn plant_dead_letter(&self, server: &Server, tenant: &str) {
        let dead_letter = DeadLetter {
            job: self.get("job").parse().unwrap(),
            topic: Some(self.get("topic").parse().unwrap()),
            code: LetterCode::WorkerLost,
            reason: self.get("message").to_owned(),
            attempts: 10,
            last_error: None,
            buried_at: Timestamp::from_millis(1_794_700_800_123),
            result: None,
        };
        let add = AddDeadLetter { tenant: tenant.parse().unwrap(), dead_letter, dead_letters_max: 1_000 };
        server.store.call(add).await.unwrap();
    }

    pub(super) fn get(&self, name: &str) -> &str {
        &self.0[name]
    }

    /// Puts the values where the template names them.
    pub(super) fn fill(&self, template: &str) -> String {
        let put =
            |filled: String, (name, value): (&&str, &String)| filled.replace(&format!("{{{name}}}"), value);
        self.0.iter().fold(template.to_owned(), put)
    }

    /// The values that are only this tenant's.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(name, _)| !SHARED.contains(name)).map(|(_, value)| value.as_str())
    }
}

/// What the tenant has, each thing with all that an operator sees of it.
pub(super) async fn snapshot(server: &Server, tenant: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for path in
        ["workflows", "workflow-runs", "jobs", "approvals", "dlq", "locks", "workers", "limits", "budgets"]
    {
        let listed = as_root(server.get(&format!("/api/v1/{path}?limit=500")), tenant).send().await.ok(200);
        assert_eq!(listed["next_cursor"], Value::Null, "all of {path} fit on a page");
        // The tenant's own limit follows the system's, and its document is below. So do copies of the system's limits.
        let is_own = |item: &&Value| item["name"] != "tenant-runs" && item["scope"] != "system";
        let items = listed["items"].as_array().unwrap().iter().filter(is_own);
        seen.extend(items.map(|item| format!("{path}: {item}")));
    }
    let limits = as_root(server.get("/api/v1/config?scope=org"), tenant).send().await.ok(200);
    seen.insert(limits.to_string());
    // A list of keys has those of all tenants, if its caller covers them.
    let scope = KeyScope::Tenant(tenant.parse().unwrap());
    let keys = server.store.call(ListApiKeys).await.unwrap();
    seen.extend(keys.iter().filter(|key| key.scope == scope).map(|key| format!("{key:?}")));
    seen
}
