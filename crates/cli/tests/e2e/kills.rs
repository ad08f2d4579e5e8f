//! `kill -9` at random moments under load: no acknowledged start is lost, and no cap is exceeded.

use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

use serde_json::json;

use super::load::Load;
use super::server::Server;

fn kills() -> usize {
    #[expect(clippy::disallowed_methods, reason = "the soak runs the same test for longer")]
    let asked = std::env::var("INTERLOCK_SOAK_KILLS");
    asked.ok().and_then(|kills| kills.parse().ok()).unwrap_or(10)
}

#[tokio::test]
async fn kills_lose_no_acknowledged_start_and_exceed_no_cap() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    let load = Load::begin(vec![server.caller("acme")]).await;
    let mut random = ChaCha8Rng::seed_from_u64(4_711);
    for _ in 0..kills() {
        // The moment of the kill is the injected fault, not a wait.
        tokio::time::sleep(Duration::from_millis(random.random_range(20..400))).await;
        server.kill();
        server = Server::start(folder.path());
        load.direct_to(vec![server.caller("acme")]);
    }
    load.check().await;
}

#[tokio::test]
async fn a_start_that_was_acknowledged_before_a_kill_is_dispatched_after_the_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let run = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    server.kill();
    let server = Server::start(folder.path());
    let job = server.caller("acme").claim("w", "work", 1).await.remove(0);
    assert_eq!(job["job_id"], format!("{run}:work@1"));
}

#[tokio::test]
async fn a_job_whose_worker_died_goes_to_another_worker_when_its_lease_expires() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let run = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    // This worker claims and then stays silent.
    let claim = json!({"topics": ["work"], "max_jobs": 1, "wait_ms": 10_000, "lease_ms": 1_000});
    let claimed = caller.post("/workers/dead/claim", claim).await.expect(200);
    assert_eq!(claimed.body["jobs"][0]["job_id"], format!("{run}:work@1"));
    let job = caller.claim("alive", "work", 1).await.remove(0);
    assert_eq!(job["job_id"], format!("{run}:work@2"));
    caller.complete(&job, &json!({})).await.expect(200);
    assert_eq!(caller.ended(&run).await["status"], "succeeded");
}
