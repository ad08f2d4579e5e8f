//! The doctor: findings, repairs, and the roles that each needs.

use std::sync::Arc;

use interlock_backend::clock::SystemClock;
use interlock_backend::conformance::inspection::LocalRows as _;
use interlock_backend::faulty::{Faults, FaultyStore};
use interlock_backend::local::Table;
use interlock_backend::memory;
use serde_json::{Value, json};

use crate::identity::make;
use crate::server::{Server, empty_store, one_step, patient};

const MISSING_RUN: &str = "01a1dc80-0000-7000-8000-000000000000";

fn name(tenant: &str) -> Value {
    json!({"invariant": "ready_without_run", "tenant": tenant, "subject": MISSING_RUN})
}

fn of(findings: &Value) -> Vec<Value> {
    let name = |found: &Value| json!([found["invariant"], found["tenant"], found["subject"]]);
    findings.as_array().unwrap().iter().map(name).collect()
}

/// A server whose tenants default and other each have a ready mark of a missing run.
async fn with_findings() -> Server {
    let store = Arc::new(memory::store(Arc::new(SystemClock)));
    let server = Server::on(store.clone(), patient()).await;
    server.save(&one_step("wf")).await;
    server
        .post("/api/v1/workflows")
        .header("x-tenant-id", "other")
        .json(&one_step("wf"))
        .send()
        .await
        .ok(201);
    for tenant in ["default", "other"] {
        server.cap(tenant, 5).await;
        let mark = (format!("{tenant}/{MISSING_RUN}"), Some(String::new()));
        store.overwrite(Table::Ready, vec![mark]).await;
    }
    server
}

#[tokio::test]
async fn findings_are_listed_with_their_plans_for_every_tenant_or_one() {
    let server = with_findings().await;
    let report = server.get("/api/v1/doctor").send().await.ok(200);
    assert_eq!(
        report["findings"][0],
        json!({
            "invariant": "ready_without_run", "tenant": "default", "subject": MISSING_RUN,
            "detail": "a run is marked as ready that does not exist", "plan": "remove the mark",
            "repairable": true
        })
    );
    assert_eq!((report["findings"].as_array().unwrap().len(), &report["unseen"]), (2, &json!([])));
    let one = server.get("/api/v1/doctor?tenant=other&only=ready_without_run,lock_debt").send().await.ok(200);
    assert_eq!(of(&one["findings"]), [json!(["ready_without_run", "other", MISSING_RUN])]);
    let looked =
        json!([{"invariant": "ready_without_run", "tenants": 1}, {"invariant": "lock_debt", "tenants": 1}]);
    assert_eq!(one["looked_at"], looked);
    server.get("/api/v1/doctor?only=nothing").send().await.problem(400, "invalid_request");
    server.get("/api/v1/doctor?tenant=a/b").send().await.problem(400, "invalid_request");
}

#[tokio::test]
async fn pages_end_and_find_what_one_request_finds() {
    let server = with_findings().await;
    let whole = server.get("/api/v1/doctor").send().await.ok(200);
    assert_eq!(whole["next_cursor"], json!(null));
    for scope in ["", "&tenant=other"] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        for pages in 0.. {
            assert!(pages < 20, "the pages do not end");
            let page = server.get(&format!("/api/v1/doctor?page_ms=1{scope}{cursor}")).send().await.ok(200);
            found.extend(of(&page["findings"]));
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(found, of(&whole["findings"]).split_off(2 - found.len()));
    }
    let keys = server.get("/api/v1/doctor?page_ms=60000&cursor=keys:queue_entry_without_job:").send().await;
    assert_eq!(keys.ok(200)["next_cursor"], json!(null));
    for cursor in ["", "a/b", "keys:", "keys:nothing:", "keys:row_damaged:zz", "keys:row_damaged"] {
        let page = server.get(&format!("/api/v1/doctor?page_ms=1000&cursor={cursor}")).send().await;
        page.problem(400, "invalid_request");
    }
    server.get("/api/v1/doctor?cursor=acme").send().await.problem(400, "invalid_request");
}

#[tokio::test]
async fn a_repair_handles_named_findings_or_all_and_looks_again() {
    let server = with_findings().await;
    let repair = |body: Value| server.post("/api/v1/doctor/repair").json(&body).send();
    let report = repair(json!({"findings": [name("other")]})).await.ok(200);
    assert_eq!(
        (&report["repaired"][0]["became"], &report["repaired"][0]["reason"]),
        (&json!("repaired"), &json!(null))
    );
    assert_eq!(of(&report["after"]["findings"]), [json!(["ready_without_run", "default", MISSING_RUN])]);
    let report = server.post("/api/v1/doctor/repair").send().await.ok(200);
    assert_eq!(of(&report["repaired"]), [json!(["ready_without_run", "default", MISSING_RUN])]);
    assert_eq!(report["after"]["findings"], json!([]));
    let report = repair(json!({"findings": [name("other")]})).await.ok(200);
    assert_eq!(report["repaired"][0]["became"], "nothing_to_do");
    for bad in [
        json!({"finding": []}),
        json!({"findings": [{"invariant": "nothing", "tenant": "other", "subject": "x"}]}),
        json!({"findings": [{"invariant": "lock_debt", "subject": "x"}]}),
        json!({"findings": vec![name("other"); 1_001]}),
    ] {
        repair(bad).await.problem(400, "invalid_request");
    }
}

#[tokio::test]
async fn a_viewer_may_look_an_operator_may_repair_and_each_within_the_scope_of_its_key() {
    let server = Server::with_key("root").await;
    let look = async |key: &str| server.get("/api/v1/doctor").header("x-api-key", key).send().await;
    let repair = async |key: &str, body: Value| {
        server.post("/api/v1/doctor/repair").header("x-api-key", key).json(&body).send().await
    };
    let viewer = make(&server, "root", "viewer", Some("acme")).await;
    look(&viewer).await.ok(200);
    repair(&viewer, json!({})).await.problem(403, "forbidden");
    for role in ["starter", "worker"] {
        look(&make(&server, "root", role, Some("acme")).await).await.problem(403, "forbidden");
    }
    let operator = make(&server, "root", "operator", Some("acme")).await;
    repair(&operator, json!({"findings": [name("acme")]})).await.ok(200);
    repair(&operator, json!({"findings": [name("other")]})).await.problem(403, "forbidden");
    let whole = json!({"findings": [{"invariant": "snapshot_stale", "subject": "workers"}]});
    repair(&operator, whole.clone()).await.problem(403, "forbidden");
    repair("root", whole).await.ok(200);
    let other = server.get("/api/v1/doctor?tenant=other").header("x-api-key", &operator).send().await;
    other.problem(403, "forbidden");
    let own = look(&operator).await.ok(200);
    let looked = own["looked_at"].as_array().unwrap().iter().map(|looked| &looked["tenants"]);
    assert!(looked.clone().count() >= 20 && looked.clone().all(|tenants| *tenants == json!(1)), "{own}");
}

#[tokio::test]
async fn an_unreachable_store_is_part_of_the_report() {
    let store = Arc::new(FaultyStore::new(empty_store(), 1, Faults::NONE));
    let server = Server::on(store.clone(), patient()).await;
    store.set_faults(Faults { requests_lost: 1_000, ..Faults::NONE });
    let report = server.get("/api/v1/doctor").send().await.ok(200);
    assert_eq!(report["findings"], json!([]));
    let unseen = report["unseen"].to_string();
    assert!(unseen.contains("the rows of the tenants") && unseen.contains("did not answer"), "{report}");
}
