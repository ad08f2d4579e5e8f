//! Keys, tenants, roles.

use interlock_backend::Store;
use interlock_backend::clock::SystemClock;
use interlock_backend::keys::{KeyScope, Role};
use interlock_backend::verbs::RevokeApiKey;
use interlock_control::api_keys::KeyTerms;
use interlock_model::{Clock as _, Timestamp};
use interlock_poll::until;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::client::Request;
use crate::server::{Server, empty_store, foundation_on, local, one_step, patient};

/// Creates a key and returns its text.
pub(crate) async fn make(server: &Server, admin: &str, role: &str, tenant: Option<&str>) -> String {
    let mut body = json!({"name": role, "role": role});
    if let Some(tenant) = tenant {
        body["tenant"] = json!(tenant);
    }
    let made = server.post("/api/v1/keys").header("x-api-key", admin).json(&body).send().await.ok(201);
    made["key"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn without_keys_the_gateway_binds_loopback_only() {
    let open = interlock_gateway::Settings { listen: ([0, 0, 0, 0], 0).into(), ..local() };
    let error = Server::with(open.clone(), None).await.err().expect("refused");
    assert!(error.to_string().contains("no API keys"), "{error}");
    assert!(Server::with(open, Some("key")).await.is_ok());
}

#[tokio::test]
async fn without_keys_every_caller_is_admin_of_the_tenant_that_it_names() {
    let server = Server::start().await;
    let create =
        |tenant: &str| server.post("/api/v1/workflows").header("x-tenant-id", tenant).json(&one_step("wf"));
    create("acme").header("x-api-key", "whatever").send().await.ok(201);
    server.get("/api/v1/workflows/wf").header("x-tenant-id", "acme").send().await.ok(200);
    server.get("/api/v1/workflows/wf").send().await.problem(404, "not_found");
    for bad in ["a b", "", "a/b", "é"] {
        create(bad).send().await.problem(400, "invalid_request");
    }
}

#[tokio::test]
async fn a_missing_or_wrong_key_is_unauthorized() {
    let server = Server::with_key("secret").await;
    let list = || server.get("/api/v1/workflows");
    let missing = list().send().await;
    missing.problem(401, "unauthorized");
    assert!(missing.header("www-authenticate").is_some());
    list().header("x-api-key", "wrong").send().await.problem(401, "unauthorized");
    list().header("authorization", "Bearer wrong").send().await.problem(401, "unauthorized");
    list().header("authorization", "Basic secret").send().await.problem(401, "unauthorized");
    list().header("x-api-key", "secret").send().await.ok(200);
    list().header("authorization", "Bearer secret").send().await.ok(200);
    let bad_body = server.post("/api/v1/workflows").text("{").send().await;
    bad_body.problem(401, "unauthorized");
}

#[tokio::test]
async fn a_key_covers_only_its_tenant() {
    let server = Server::with_key("root").await;
    let key = make(&server, "root", "admin", Some("acme")).await;
    let list = || server.get("/api/v1/workflow-runs").header("x-api-key", &key);
    list().send().await.ok(200);
    list().header("x-tenant-id", "acme").send().await.ok(200);
    list().header("x-tenant-id", "other").send().await.problem(403, "forbidden");
    let config = |scope: Value| server.put("/api/v1/config").header("x-api-key", &key).json(&scope).send();
    let data = json!({"limits": {"max_concurrent_runs": 1}});
    config(json!({"scope": "org", "scope_id": "acme", "data": data})).await.ok(204);
    config(json!({"scope": "org", "data": data})).await.ok(204);
    config(json!({"scope": "org", "scope_id": "other", "data": data})).await.problem(403, "forbidden");
    config(json!({"scope": "system", "data": data})).await.problem(403, "forbidden");
    let effective =
        server.get("/api/v1/config/effective?org_id=other").header("x-api-key", &key).send().await;
    effective.problem(403, "forbidden");
    // What protects other tenants is for keys of all tenants, and stays when a tenant's own admin sets the rest.
    let quotas = json!({"limits": {"max_run_bytes": 70_000, "max_workers": 3}});
    let body = json!({"scope": "org", "scope_id": "acme", "data": quotas});
    config(body.clone()).await.problem(403, "forbidden");
    server.put("/api/v1/config").header("x-api-key", "root").json(&body).send().await.ok(204);
    config(json!({"scope": "org", "data": data})).await.ok(204);
    let same = json!({"limits": {"max_concurrent_runs": 2, "max_run_bytes": 70_000}});
    config(json!({"scope": "org", "data": same})).await.ok(204);
    let written = server.get("/api/v1/config?scope=org").header("x-api-key", &key).send().await.ok(200);
    let limits = json!({"max_concurrent_runs": 2, "max_run_bytes": 70_000, "max_workers": 3});
    assert_eq!(written["data"]["limits"], limits);
    let body = json!({"name": "x", "role": "viewer", "tenant": "other"});
    let other = server.post("/api/v1/keys").header("x-api-key", &key).json(&body).send().await;
    other.problem(403, "forbidden");
}

#[tokio::test]
async fn resources_of_another_tenant_are_not_found() {
    let server = Server::start().await;
    server.save(&one_step("wf")).await;
    let run = server.run("wf", &json!({"n": 1})).await;
    let job = server.claim_one("w").await;
    let (id, fence) = (job["job_id"].as_str().unwrap(), &job["fence"]);
    for path in [
        format!("workflow-runs/{run}"),
        format!("workflow-runs/{run}/timeline"),
        format!("jobs/{id}"),
        format!("workflow-runs/{run}/events"),
        "workflows/wf".to_owned(),
        "workers/w".to_owned(),
    ] {
        let answer = server.get(&format!("/api/v1/{path}")).header("x-tenant-id", "other").send().await;
        answer.problem(404, "not_found");
    }
    for path in [
        format!("workflow-runs/{run}/cancel"),
        format!("workflow-runs/{run}/rerun"),
        format!("jobs/{id}/cancel"),
        "workflows/wf/runs".to_owned(),
        format!("approvals/{id}/approve"),
    ] {
        let answer = server.post(&format!("/api/v1/{path}")).header("x-tenant-id", "other").send().await;
        answer.problem(404, "not_found");
    }
    for verb in ["heartbeat", "complete"] {
        let ask = server.post(&format!("/api/v1/jobs/{id}/{verb}")).header("x-tenant-id", "other");
        ask.json(&json!({"fence": fence})).send().await.problem(404, "not_found");
    }
    let answer =
        server.delete(&format!("/api/v1/workflow-runs/{run}")).header("x-tenant-id", "other").send().await;
    answer.problem(404, "not_found");
}

#[tokio::test]
async fn keys_are_created_listed_and_revoked() {
    let server = Server::with_key("root").await;
    let key = make(&server, "root", "viewer", Some("acme")).await;
    let listed = server.get("/api/v1/keys").header("x-api-key", "root").send().await.ok(200);
    let id = listed["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(listed["items"][0]["tenant"], "acme");
    assert!(!listed.to_string().contains(&key[key.len() - 32..]), "the secret is shown once");
    let list = || server.get("/api/v1/workflows").header("x-api-key", &key).send();
    list().await.ok(200);
    let path = format!("/api/v1/keys/{id}");
    server.delete(&path).header("x-api-key", "root").send().await.ok(204);
    list().await.problem(401, "unauthorized");
    server.delete(&path).header("x-api-key", "root").send().await.problem(404, "not_found");
    let nameless = json!({"name": "", "role": "viewer", "tenant": "acme"});
    let everywhere = json!({"name": "x", "role": "worker"});
    let unknown = json!({"name": "x", "role": "king", "tenant": "acme"});
    for body in [nameless, everywhere, unknown] {
        let answer = server.post("/api/v1/keys").header("x-api-key", "root").json(&body).send().await;
        answer.problem(400, "invalid_request");
    }
}

#[tokio::test]
async fn the_first_key_must_be_able_to_create_others() {
    let server = Server::start().await;
    let viewer = json!({"name": "v", "role": "viewer", "tenant": "acme"});
    server.post("/api/v1/keys").json(&viewer).send().await.problem(409, "conflict");
    let admin = json!({"name": "a", "role": "admin"});
    let made = server.post("/api/v1/keys").json(&admin).send().await.ok(201);
    server.get("/api/v1/keys").send().await.problem(401, "unauthorized");
    let key = made["key"].as_str().unwrap();
    server.get("/api/v1/keys").header("x-api-key", key).send().await.ok(200);
}

#[tokio::test]
async fn a_key_opens_nothing_once_it_has_expired() {
    let server = Server::start().await;
    let create = |body: serde_json::Value| server.post("/api/v1/keys").json(&body);
    create(json!({"name": "a", "role": "admin", "expires_in_sec": 60})).send().await.problem(409, "conflict");
    let admin = create(json!({"name": "a", "role": "admin"})).send().await.ok(201);
    let admin = admin["key"].as_str().unwrap();
    for seconds in [0, 315_360_001] {
        let body = json!({"name": "b", "role": "admin", "expires_in_sec": seconds});
        create(body).header("x-api-key", admin).send().await.problem(400, "invalid_request");
    }
    let short = json!({"name": "s", "role": "admin", "expires_in_sec": 3_600});
    let short = create(short).header("x-api-key", admin).send().await.ok(201);
    let short = short["key"].as_str().unwrap();
    for longer in [
        json!({"name": "c", "role": "admin"}),
        json!({"name": "c", "role": "admin", "expires_in_sec": 7_200}),
    ] {
        create(longer).header("x-api-key", short).send().await.problem(409, "conflict");
    }
    let child = json!({"name": "c", "role": "admin", "expires_in_sec": 60});
    create(child).header("x-api-key", short).send().await.ok(201);
    let viewer = json!({"name": "v", "role": "viewer", "tenant": "acme", "expires_in_sec": 1});
    let viewer = create(viewer).header("x-api-key", admin).send().await.ok(201);
    assert!(viewer["expires_at"].as_str().unwrap() > viewer["created_at"].as_str().unwrap(), "{viewer}");
    let key = viewer["key"].as_str().unwrap();
    let list = || server.get("/api/v1/workflows").header("x-api-key", key).send();
    until("the key has expired", async || list().await.status == 401).await;
    let expired = list().await.problem(401, "unauthorized");
    assert!(expired["error"].as_str().unwrap().contains("expired"), "{expired}");
}

#[tokio::test]
async fn a_rotated_key_works_for_the_overlap_and_its_successor_has_the_same_terms() {
    let server = Server::with_key("root").await;
    let ask = |method, path: &str| server.request(method, path).header("x-api-key", "root");
    let body = json!({"name": "ci", "role": "starter", "tenant": "acme", "workflows": ["wf", "deploy-*"],
        "expires_in_sec": 3_600});
    let first = ask("POST", "/api/v1/keys").json(&body).send().await.ok(201);
    let rotate = async |key: &Value, body: Value| {
        let path = format!("/api/v1/keys/{}/rotate", key["id"].as_str().unwrap());
        ask("POST", &path).json(&body).send().await
    };
    let opens = async |key: &Value| {
        let list = server.get("/api/v1/workflows").header("x-api-key", key["key"].as_str().unwrap());
        list.send().await.status == 200
    };
    let second = rotate(&first, json!({})).await.ok(201);
    for member in ["name", "role", "tenant", "workflows"] {
        assert_eq!(second[member], first[member], "{member}");
    }
    assert!(second["expires_at"].as_str() >= first["expires_at"].as_str(), "{second}");
    assert_ne!((&second["id"], &second["key"]), (&first["id"], &first["key"]));
    assert!(opens(&first).await && opens(&second).await);
    let again = rotate(&first, json!({})).await.problem(409, "conflict");
    assert!(again["error"].as_str().unwrap().contains(second["id"].as_str().unwrap()), "{again}");
    let third = rotate(&second, json!({"overlap_sec": 0})).await.ok(201);
    assert!(!opens(&first).await && !opens(&second).await && opens(&third).await);
    let listed = ask("GET", "/api/v1/keys").send().await.ok(200);
    let states: Vec<_> = listed["items"].as_array().unwrap().iter().map(|key| &key["expired"]).collect();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "the first was deleted: {listed}");
    assert!(states.contains(&&json!(true)) && states.contains(&&json!(false)), "{listed}");
    rotate(&second, json!({})).await.problem(409, "conflict");
    rotate(&first, json!({})).await.problem(404, "not_found");
    rotate(&third, json!({"overlap_sec": 2_592_001})).await.problem(400, "invalid_request");
}

#[tokio::test]
async fn a_key_that_expires_cannot_outlive_itself_by_rotation() {
    let server = Server::with_key("root").await;
    let create = |body: Value| server.post("/api/v1/keys").json(&body);
    let admin = json!({"name": "a", "role": "admin", "tenant": "acme", "expires_in_sec": 3_600});
    let admin = create(admin).header("x-api-key", "root").send().await.ok(201);
    let path = format!("/api/v1/keys/{}/rotate", admin["id"].as_str().unwrap());
    let rotate = |key: &str| server.post(&path).header("x-api-key", key).send();
    // A lifetime that begins now ends later than one that began before.
    let created_at: Timestamp = admin["created_at"].as_str().unwrap().parse().unwrap();
    until("a millisecond has passed", async || SystemClock.now() > created_at).await;
    let refused = rotate(admin["key"].as_str().unwrap()).await.problem(409, "conflict");
    assert!(refused["error"].as_str().unwrap().contains("no later than itself"), "{refused}");
    rotate("root").await.ok(201);
}

#[tokio::test]
async fn a_key_is_limited_to_workflows_of_its_tenant() {
    let server = Server::with_key("root").await;
    let create = |body: Value| server.post("/api/v1/keys").header("x-api-key", "root").json(&body).send();
    let body = |role: &str, tenant: Value, workflows: Value| {
        let mut body = json!({"name": "k", "role": role, "workflows": workflows});
        if tenant != Value::Null {
            body["tenant"] = tenant;
        }
        body
    };
    let acme = || json!("acme");
    for refused in [
        body("viewer", acme(), json!([])),
        body("viewer", acme(), json!(["a b"])),
        body("viewer", acme(), json!(["*a"])),
        body("viewer", acme(), json!(vec!["a"; 101])),
        body("worker", acme(), json!(["a"])),
        body("admin", Value::Null, json!(["a"])),
    ] {
        create(refused).await.problem(400, "invalid_request");
    }
    let made = create(body("viewer", acme(), json!(["a", "deploy-*"]))).await.ok(201);
    assert_eq!(made["workflows"], json!(["a", "deploy-*"]));
    for id in ["a", "ab", "deploy-web"] {
        let save = server.post("/api/v1/workflows").header("x-api-key", "root");
        save.header("x-tenant-id", "acme").json(&one_step(id)).send().await.ok(201);
    }
    let list = server.get("/api/v1/workflows").header("x-api-key", made["key"].as_str().unwrap());
    let listed = list.send().await.ok(200);
    let ids: Vec<_> = listed["items"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
    assert_eq!(ids, ["deploy-web", "a"]);
}

#[tokio::test]
async fn a_server_whose_store_loses_its_keys_stays_closed() {
    let store = Store::new(empty_store());
    let foundation = foundation_on(store.clone(), patient(), None).await;
    let keys = foundation.keys.clone();
    let terms = KeyTerms {
        name: "a".to_owned(),
        role: Role::Admin,
        scope: KeyScope::All,
        workflows: None,
        lifetime: None,
    };
    let (kept, text) = keys.create(terms, None).await.unwrap();
    let gateway = interlock_gateway::Gateway::bind(local(), foundation).unwrap();
    let (address, shutdown) = (gateway.local_address(), CancellationToken::new());
    let serving = tokio::spawn(gateway.serve(shutdown.clone()));
    let following = tokio::spawn(keys.follow(shutdown.clone()));
    let list = || Request::new(address, "GET", "/api/v1/workflows");
    list().header("x-api-key", &text).send().await.ok(200);
    // Nothing but the store knows of this.
    store.call(RevokeApiKey { id: kept.id }).await.unwrap();
    until("the key is gone", async || list().header("x-api-key", &text).send().await.status == 401).await;
    list().send().await.problem(401, "unauthorized");
    shutdown.cancel();
    serving.await.unwrap();
    following.await.unwrap();
}

#[tokio::test]
async fn only_operators_see_the_tokens_of_locks() {
    let server = Server::with_key("root").await;
    let lock = json!({"resource": "r", "owner": "o", "ttl_ms": 60_000});
    let acquire = server.post("/api/v1/locks/acquire").header("x-api-key", "root");
    acquire.header("x-tenant-id", "acme").json(&lock).send().await.ok(200);
    for (role, sees) in [("operator", true), ("viewer", false)] {
        let key = make(&server, "root", role, Some("acme")).await;
        for path in ["locks", "locks?resource=r", "locks/history?resource=r"] {
            let answer =
                server.get(&format!("/api/v1/{path}")).header("x-api-key", &key).send().await.ok(200);
            assert!(answer.to_string().contains("\"owner\":\"o\""), "{role} {path}: {answer}");
            assert_eq!(answer.to_string().contains("\"token\""), sees, "{role} {path}: {answer}");
        }
    }
}

#[tokio::test]
async fn the_last_admin_key_cannot_be_revoked() {
    let server = Server::start().await;
    let admin = json!({"name": "a", "role": "admin"});
    let made = server.post("/api/v1/keys").json(&admin).send().await.ok(201);
    let key = made["key"].as_str().unwrap();
    let delete = |made: &Value| {
        let path = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
        server.delete(&path).header("x-api-key", key).send()
    };
    delete(&made).await.problem(409, "conflict");
    let other = server.post("/api/v1/keys").header("x-api-key", key).json(&admin).send().await.ok(201);
    delete(&other).await.ok(204);
    server.get("/api/v1/keys").header("x-api-key", key).send().await.ok(200);
}
