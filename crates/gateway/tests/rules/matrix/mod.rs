//! The matrix: every route × every role × own and other tenant × no, wrong, revoked and expired key × a key that is limited
//! to another workflow. The routes come from the `OpenAPI` document, so that a new one without a row fails.

mod planted;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use interlock_poll::until;
use serde_json::json;

use crate::client::Request;
use crate::identity::make;
use crate::server::Server;

use planted::{Planted, ROOT, as_root, snapshot};
use table::{Row, rows};

/// Roles of a key for one tenant.
const ROLES: [&str; 5] = ["admin", "operator", "starter", "worker", "viewer"];

/// Begins every text that the other tenant chooses.
const OTHER_MARK: &str = "zq7";

#[tokio::test]
#[expect(clippy::print_stdout, reason = "how much was checked is part of the result")]
async fn every_route_answers_every_caller_as_the_matrix_says() {
    let mut matrix = Matrix::new().await;
    for row in rows() {
        let before = matrix.snapshots().await;
        matrix.without_a_valid_key(row).await;
        for role in ROLES {
            matrix.with_role(row, role).await;
        }
        matrix.limited_to_workflows(row).await;
        matrix.as_root(row).await;
        let after = matrix.snapshots().await;
        let changed: Vec<_> = after.symmetric_difference(&before).collect();
        assert!(changed.is_empty(), "an effect of {row:?} where there must be none: {changed:#?}");
    }
    println!("{} rows, {} cells, 0 leaks", rows().len(), matrix.cells);
}

#[tokio::test]
async fn the_matrix_has_a_row_for_every_route() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").send().await.ok(200);
    let mut documented = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().keys();
        documented.extend(methods.map(|method| table::route(&method.to_uppercase(), path)));
    }
    let expected: BTreeSet<_> = rows().into_iter().map(Row::route).collect();
    assert_eq!(documented, expected, "left: served; right: in the table");
}

/// One server, one tenant that sends requests, and another that must not notice them.
struct Matrix {
    server: Server,
    /// Sends what is refused, and what changes nothing.
    own: Planted,
    other: Planted,
    /// Its keys, one of each role.
    keys: BTreeMap<&'static str, String>,
    /// The same, limited to workflows that it does not have.
    limited: BTreeMap<&'static str, String>,
    /// Keys that open nothing, each with its name.
    invalid: Vec<(&'static str, Option<String>)>,
    /// A rollout belongs to no tenant.
    rollout: String,
    tenants: usize,
    cells: usize,
}

impl Matrix {
    async fn new() -> Self {
        let server = Server::with_key(ROOT).await;
        let own = Planted::new(&server, "acme", "own").await;
        let other = Planted::new(&server, "globex", OTHER_MARK).await;
        let (mut keys, mut limited) = (BTreeMap::new(), BTreeMap::new());
        for role in ROLES {
            keys.insert(role, make(&server, ROOT, role, Some("acme")).await);
            if role != "worker" {
                limited.insert(role, limited_key(&server, role, "acme", "elsewhere-*").await);
            }
        }
        let invalid = invalid_keys(&server).await;
        let set = as_root(server.put("/api/v1/retry-policies/admission"), "acme");
        set.json(&json!({"policy": "fixed:20ms"})).send().await.ok(200);
        Self { server, own, other, keys, limited, invalid, rollout: String::new(), tenants: 0, cells: 0 }
    }

    /// What must not change by requests of the shared tenant, or about the other one.
    async fn snapshots(&self) -> BTreeSet<String> {
        let mut seen = snapshot(&self.server, "acme").await;
        seen.extend(snapshot(&self.server, "globex").await);
        seen
    }

    async fn without_a_valid_key(&mut self, row: Row) {
        let expected = if row.is_public() { row.own } else { 401 };
        for (what, key) in self.invalid.clone() {
            let who = format!("{what} key");
            let cell = Cell { who: &who, key: key.as_deref(), tenant: None, expected };
            let (asked, asked_of_other) = (self.ask(row, &self.own), self.ask(row, &self.other));
            self.send(&asked, cell).await;
            self.send(&asked_of_other, Cell { tenant: Some("globex"), ..cell }).await;
        }
    }

    async fn with_role(&mut self, row: Row, role: &'static str) {
        let key = self.keys[role].clone();
        let asked_of_other = self.ask(row, &self.other);
        let elsewhere = if row.is_public() { row.own } else { 403 };
        let other = Cell { who: role, key: Some(&key), tenant: Some("globex"), expected: elsewhere };
        self.send(&asked_of_other, other).await;
        let asked = self.ask(row, &self.own);
        if !row.permits(role) {
            let refused = Cell { tenant: None, expected: 403, ..other };
            self.send(&asked, refused).await;
            if asked != asked_of_other {
                self.send(&asked_of_other, refused).await;
            }
            return;
        }
        let (things, key) = if row.is_safe() { (self.own.clone(), key) } else { self.fresh(role).await };
        let allowed = Cell { who: role, key: Some(&key), tenant: None, expected: row.own };
        if asked != asked_of_other {
            self.send(&asked_of_other, Cell { expected: row.foreign, ..allowed }).await;
        }
        self.send(&self.ask(row, &things), allowed).await;
    }

    /// A key that is limited to another workflow sees and changes nothing. One that is limited to the right one does what
    /// its role allows.
    async fn limited_to_workflows(&mut self, row: Row) {
        for role in ROLES.into_iter().filter(|role| *role != "worker" && row.permits(role)) {
            let key = self.limited[role].clone();
            let cell = Cell { who: "limited", key: Some(&key), tenant: None, expected: row.limited };
            let asked = self.ask(row, &self.own);
            let answer = self.send(&asked, cell).await;
            for secret in self.own.secrets() {
                let is_shown =
                    !asked.names(secret) && !is_label(&asked.path, secret) && answer.contains(secret);
                assert!(!is_shown, "a limited {role}: {asked:?} shows {secret}: {answer}");
            }
        }
        if !row.is_about_workflows() || !row.permits("admin") {
            return;
        }
        let (things, _) = self.fresh("viewer").await;
        let key = limited_key(&self.server, "admin", things.get("tenant"), "fresh*").await;
        let cell = Cell { who: "limited", key: Some(&key), tenant: None, expected: row.own };
        self.send(&self.ask(row, &things), cell).await;
    }

    /// The key of the operator, with a tenant that the request names.
    async fn as_root(&mut self, row: Row) {
        let things = if row.is_safe() { self.own.clone() } else { self.fresh("viewer").await.0 };
        self.prepare_rollout(row).await;
        let cell = Cell { who: ROOT, key: Some(ROOT), tenant: Some(things.get("tenant")), expected: row.own };
        let (asked, asked_of_other) = (self.ask(row, &things), self.ask(row, &self.other));
        // The key covers the other tenant: naming it is no offence, and ids of other things than keys do not lead there.
        if asked != asked_of_other && row.foreign != 403 && !is_about_keys(&asked.path) {
            self.send(&asked_of_other, Cell { expected: row.foreign, ..cell }).await;
        }
        self.send(&asked, cell).await;
    }

    /// A tenant for requests that may change something, and a key of it.
    async fn fresh(&mut self, role: &str) -> (Planted, String) {
        self.tenants += 1;
        let tenant = format!("tenant-{}", self.tenants);
        let things = Planted::new(&self.server, &tenant, &format!("fresh{}", self.tenants)).await;
        (things, make(&self.server, ROOT, role, Some(&tenant)).await)
    }

    /// The request of a row about these things.
    fn ask(&self, row: Row, things: &Planted) -> Asked {
        let fill = |template: &str| {
            things.fill(template).replace("{scope}", "admission").replace("{rollout}", &self.rollout)
        };
        Asked { method: row.method, path: fill(row.path), body: fill(row.body) }
    }

    /// Only one rollout runs at a time, and only a running one can be ended.
    async fn prepare_rollout(&mut self, row: Row) {
        if !row.path.starts_with("/api/v1/rollouts") {
            return;
        }
        let ask = |request: Request| as_root(request, "acme");
        let listed = ask(self.server.get("/api/v1/rollouts")).send().await.ok(200);
        let running = listed["items"].as_array().unwrap().iter().find(|found| found["state"] == "running");
        let id = running.map(|found| found["id"].as_str().unwrap().to_owned());
        match (row.path == "/api/v1/rollouts" && !row.is_safe(), id) {
            (true, None) => {}
            (true, Some(id)) => {
                ask(self.server.post(&format!("/api/v1/rollouts/{id}/abort"))).send().await.ok(200);
            }
            (false, Some(id)) => self.rollout = id,
            (false, None) => {
                let body = json!({"candidate": "fixed:250ms", "share_percent": 10});
                let started = ask(self.server.post("/api/v1/rollouts")).json(&body).send().await.ok(201);
                started["id"].as_str().unwrap().clone_into(&mut self.rollout);
            }
        }
    }

    /// Fills a cell: the status is the expected one, and the answer has nothing of the other tenant but what the request
    /// named.
    async fn send(&mut self, asked: &Asked, cell: Cell<'_>) -> String {
        self.cells += 1;
        let Asked { method, path, body } = asked;
        let mut request = self.server.request(method, path);
        for (name, value) in [("x-api-key", cell.key), ("x-tenant-id", cell.tenant)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        if !body.is_empty() {
            request = request.text(body);
        }
        let answer = request.send().await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let Cell { who, tenant, expected, .. } = cell;
        assert_eq!(answer.status, expected, "{who}, tenant {tenant:?}: {asked:?}: {text}");
        if who == ROOT && is_about_keys(path) {
            return text;
        }
        for secret in self.other.secrets() {
            let is_shown = !asked.names(secret) && !is_label(path, secret) && text.contains(secret);
            assert!(!is_shown, "{who}: {asked:?} shows {secret}: {text}");
        }
        text
    }
}

/// A key that covers every tenant sees the keys of all.
fn is_about_keys(path: &str) -> bool {
    path.starts_with("/api/v1/keys")
}

/// Metrics are labelled with the names of budgets, as they are with those of tenants.
fn is_label(path: &str, value: &str) -> bool {
    path == "/metrics" && value.ends_with("-budget")
}

#[derive(Debug, PartialEq)]
struct Asked {
    method: &'static str,
    path: String,
    body: String,
}

impl Asked {
    /// Whether the answer may have it: labels of metrics are the names of tenants and of their limits.
    fn names(&self, value: &str) -> bool {
        let is_label = self.path == "/metrics" && value.ends_with("-limit");
        is_label || self.path.contains(value) || self.body.contains(value)
    }
}

/// Who sends a request, and the status that must follow.
#[derive(Debug, Clone, Copy)]
struct Cell<'a> {
    who: &'a str,
    key: Option<&'a str>,
    tenant: Option<&'a str>,
    expected: u16,
}

async fn limited_key(server: &Server, role: &str, tenant: &str, workflows: &str) -> String {
    let body = json!({"name": "limited", "role": role, "tenant": tenant, "workflows": [workflows]});
    let made = as_root(server.post("/api/v1/keys"), tenant).json(&body).send().await.ok(201);
    made["key"].as_str().unwrap().to_owned()
}

/// No key, a wrong one, a revoked one and an expired one.
async fn invalid_keys(server: &Server) -> Vec<(&'static str, Option<String>)> {
    let revoked = make(server, ROOT, "admin", Some("acme")).await;
    let id = revoked.split('_').nth(1).unwrap();
    as_root(server.delete(&format!("/api/v1/keys/{id}")), "acme").send().await.ok(204);
    let body = json!({"name": "short", "role": "admin", "tenant": "acme", "expires_in_sec": 1});
    let expired = as_root(server.post("/api/v1/keys"), "acme").json(&body).send().await.ok(201);
    let expired = expired["key"].as_str().unwrap().to_owned();
    until("the key has expired", async || {
        server.get("/api/v1/status").header("x-api-key", &expired).send().await.status == 401
    })
    .await;
    vec![
        ("no", None),
        ("a wrong", Some("wrong".to_owned())),
        ("a revoked", Some(revoked)),
        ("an expired", Some(expired)),
    ]
}
