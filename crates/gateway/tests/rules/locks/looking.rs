//! Lists, one lock, histories, the inventory.

use serde_json::{Value, json};

use super::{acquire, release, request, show, take, with};
use crate::server::Server;

fn members(items: &Value, name: &str) -> Vec<String> {
    items["items"].as_array().unwrap().iter().map(|item| item[name].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn held_locks_are_listed_newest_first_in_pages() {
    let server = Server::start().await;
    for number in 0..5 {
        take(&server, &format!("r{number}"), "ada").await;
    }
    let released = take(&server, "free", "ada").await;
    release(&server, &released).await.ok(204);
    let first = server.get("/api/v1/locks?limit=3").send().await.ok(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = server.get(&format!("/api/v1/locks?limit=3&cursor={cursor}")).send().await.ok(200);
    let listed = [members(&first, "resource"), members(&second, "resource")].concat();
    let mut sorted = listed.clone();
    sorted.sort();
    assert_eq!(sorted, ["r0", "r1", "r2", "r3", "r4"]);
    let times = [members(&first, "acquired_at"), members(&second, "acquired_at")].concat();
    assert!(times.is_sorted_by(|newer, older| newer >= older), "{times:?}");
    assert_eq!(second["next_cursor"], Value::Null);
    let other = server.get("/api/v1/locks").header("x-tenant-id", "other").send().await.ok(200);
    assert_eq!(other, json!({"items": [], "next_cursor": null}));
}

#[tokio::test]
async fn a_lock_is_shown_with_its_holder_and_its_queue() {
    let server = Server::start().await;
    let grant = take(&server, "db", "ada").await;
    let view = show(&server, "db").await.ok(200);
    for member in ["resource", "mode", "owner", "token", "fence", "expires_at"] {
        assert_eq!(view[member], grant[member], "{member}");
    }
    let holder = json!({"owner": "ada", "token": grant["token"], "fence": grant["fence"],
        "acquired_at": view["acquired_at"], "expires_at": grant["expires_at"]});
    assert_eq!(view["holders"], json!([holder]));
    assert_eq!((&view["waiting"], &view["line"]), (&json!(0), &json!([])));
    show(&server, "unknown").await.problem(404, "not_found");
}

#[tokio::test]
async fn a_history_has_pages_and_an_unused_lock_has_none() {
    let server = Server::start().await;
    for owner in ["ada", "bob", "cleo"] {
        let grant = take(&server, "db", owner).await;
        release(&server, &grant).await.ok(204);
    }
    let first = server.get("/api/v1/locks/history?resource=db&limit=4").send().await.ok(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    let path = format!("/api/v1/locks/history?resource=db&limit=4&cursor={cursor}");
    let second = server.get(&path).send().await.ok(200);
    let owners = [members(&first, "owner"), members(&second, "owner")].concat();
    assert_eq!(owners, ["cleo", "cleo", "bob", "bob", "ada", "ada"]);
    assert_eq!(second["next_cursor"], Value::Null);
    server.get("/api/v1/locks/history?resource=unknown").send().await.problem(404, "not_found");
    server.get("/api/v1/locks/history").send().await.problem(400, "invalid_request");
}

#[tokio::test]
async fn a_resource_may_have_every_visible_character() {
    let server = Server::start().await;
    let resource = "a/b%2F?c=d&e#f:{g}\"h\\+~";
    take(&server, resource, "ada").await;
    let escaped = resource.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
    assert_eq!(show(&server, &escaped).await.ok(200)["resource"], resource);
    let history = server.get(&format!("/api/v1/locks/history?resource={escaped}")).send().await.ok(200);
    assert_eq!(history["items"][0]["owner"], "ada");
    assert_eq!(members(&server.get("/api/v1/locks").send().await.ok(200), "resource"), [resource]);
}

#[tokio::test]
async fn the_inventory_lists_every_lock_with_the_settings_in_force() {
    let server = Server::start().await;
    let inventory = server.get("/api/v1/locks/inventory").send().await.ok(200);
    let keys = members(&inventory, "key");
    assert_eq!(
        keys,
        [
            "cordum:scheduler:job:<job>",
            "cordum:wf:run:lock:<run>",
            "cordum:wf:run:admission:<tenant>",
            "cordum:reconciler:default",
            "cordum:replayer:pending",
            "cordum:workflow-engine:reconciler:default",
            "cordum:reconciler:slots",
            "cordum:reconciler:timers",
            "cordum:reconciler:retention",
            "cordum:scheduler:snapshot:writer",
            "cordum:lock:{<tenant>}:<resource>",
        ]
    );
    let job = &inventory["items"][0];
    assert_eq!((&job["kind"], &job["release"]), (&json!("per_item"), &json!("explicit")));
    assert_eq!(
        (&job["ttl_ms"], &job["renew_ms"], &job["max_failures"]),
        (&json!(60_000), &json!(20_000), &json!(3))
    );
    for item in inventory["items"].as_array().unwrap() {
        for member in ["protects", "on_loss"] {
            assert!(item[member].as_str().is_some_and(|text| !text.is_empty()), "{member} in {item}");
        }
    }
    assert_eq!(inventory["next_cursor"], Value::Null);
}

#[tokio::test]
async fn the_status_shows_the_lock_limits() {
    let server = Server::start().await;
    let policies = server.get("/api/v1/status").send().await.ok(200)["policies"].clone();
    let limits = json!({"locks_per_tenant_max": 10_000, "lock_waiters_per_tenant_max": 10_000, "lock_line_max": 2_000});
    assert_eq!(policies["lock_limits"], limits);
    assert!(policies["lock_silence_ms"].is_u64() && policies["lock_poll_ms"].is_u64());
}

#[tokio::test]
async fn an_expired_lease_is_not_shown() {
    let server = Server::start().await;
    acquire(&server, &with(request("db", "ada"), "ttl_ms", 100)).await.ok(200);
    interlock_poll::until("the lease expires", async || show(&server, "db").await.status == 404).await;
    assert_eq!(server.get("/api/v1/locks").send().await.ok(200)["items"], json!([]));
}
