//! Probes and metrics.

use interlock_gateway::Settings;

use crate::server::{Server, local};

#[tokio::test]
async fn a_process_without_api_serves_health_and_metrics() {
    let settings = Settings { serves_api: false, listen: ([0, 0, 0, 0], 0).into(), ..local() };
    let mut server = Server::with(settings, None).await.expect("no key guards what is no secret");
    server.address.set_ip([127, 0, 0, 1].into());
    assert_eq!(server.get("/healthz").send().await.ok(200)["status"], "ok");
    assert_eq!(server.get("/readyz").send().await.ok(200)["ready"], true);
    let metrics = server.get("/metrics").send().await;
    assert_eq!(metrics.status, 200);
    assert!(String::from_utf8_lossy(&metrics.body).contains("\norphan_replayed_total 0\n"));
    for path in ["/api/v1/status", "/api/v1/workflows", "/openapi.json"] {
        server.get(path).send().await.problem(404, "not_found");
    }
}

#[tokio::test]
async fn calls_of_the_store_are_shown_by_verb_and_outcome() {
    let server = Server::start().await;
    server.get("/api/v1/workflows/missing").send().await.problem(404, "not_found");
    let metrics = server.get("/metrics").send().await;
    let text = String::from_utf8_lossy(&metrics.body);
    for line in [
        "# TYPE interlock_store_call_seconds histogram",
        "interlock_store_call_seconds_count{verb=\"read_workflow\"} 1",
        "interlock_store_call_seconds_bucket{le=\"+Inf\",verb=\"read_workflow\"} 1",
        "# TYPE interlock_store_calls_total counter",
        "interlock_store_calls_total{verb=\"read_workflow\",outcome=\"ok\"} 1",
        "interlock_store_calls_total{verb=\"read_workflow\",outcome=\"unavailable\"} 0",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
    }
    assert!(!text.contains("verb=\"admit\""), "a verb appears with its first call");
}
