//! `kill -9` of replicas under load: the others continue, and nothing is lost or done twice.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;

use super::monitor::Monitor;
use super::{Machines, replica};
use crate::load::Load;
use crate::server::Server;

fn kills() -> usize {
    #[expect(clippy::disallowed_methods, reason = "the soak runs the same test for longer")]
    let asked = std::env::var("INTERLOCK_SOAK_REPLICA_KILLS");
    asked.ok().and_then(|kills| kills.parse().ok()).unwrap_or(3)
}

#[tokio::test]
async fn other_replicas_continue_when_one_dies() {
    let mut machines = Machines::start(3).await;
    let load = Load::begin(machines.callers("acme")).await;
    let mut random = ChaCha8Rng::seed_from_u64(815);
    for _ in 0..kills() {
        load.continues_by(random.random_range(20..60)).await;
        let victim = random.random_range(0..machines.replicas.len());
        machines.replicas.remove(victim).kill();
        load.direct_to(machines.callers("acme"));
        load.continues_by(30).await;
        machines.replicas.push(machines.replica());
        load.direct_to(machines.callers("acme"));
    }
    load.check().await;
}

#[tokio::test]
async fn a_rolling_restart_under_load_loses_nothing() {
    let mut machines = Machines::start(3).await;
    let load = Load::begin(machines.callers("acme")).await;
    for _ in 0..3 {
        load.continues_by(20).await;
        let oldest = machines.replicas.remove(0);
        machines.replicas.push(machines.replica());
        load.direct_to(machines.callers("acme"));
        assert_eq!(oldest.stop(), Some(0), "a replica exits cleanly on `TERM`");
    }
    load.continues_by(20).await;
    load.check().await;
}

#[tokio::test]
async fn each_role_can_run_in_a_process_of_its_own() {
    let machines = Machines::start(0).await;
    let (redis, nats) = (machines.redis.url(), machines.nats.url());
    let gateway = replica(&redis, &nats, &["--roles", "gateway"]);
    let _engine = Headless::start(&redis, &nats, "engine");
    let _scheduler = Headless::start(&redis, &nats, "scheduler");
    let caller = gateway.caller("acme");
    let steps = json!({
        "first": {"type": "worker", "topic": "work"},
        "pause": {"type": "delay", "delay_sec": 1, "depends_on": ["first"]},
        "last": {"type": "worker", "topic": "work", "depends_on": ["pause"]},
    });
    caller.workflow("story", steps).await;
    let run = caller.start("story", None, &json!({})).await.expect(200).text("run_id");
    for _ in 0..2 {
        for job in caller.claim("w", "work", 1).await {
            caller.complete(&job, &json!({})).await.expect(200);
        }
    }
    assert_eq!(caller.ended(&run).await["status"], "succeeded");
}

/// A replica without a gateway, and thus without an address.
struct Headless(std::process::Child);

impl Headless {
    fn start(redis: &str, nats: &str, role: &str) -> Self {
        let mut command = std::process::Command::new(crate::server::BINARY);
        command.args(["serve", "--roles", role, "--poll-ms", "200", "--redis", redis, "--nats", nats]);
        Self(command.stdout(std::process::Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Headless {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_run_whose_replica_died_during_a_turn_continues_when_the_replica_is_missed() {
    let machines = Machines::start(1).await;
    let caller = machines.replicas[0].caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let run = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    let job = caller.claim("w", "work", 1).await.remove(0);
    // An engine holds the run and is silent: only its lock, which never expires, and its last heartbeat are left.
    let lock = format!("cordum:wf:run:lock:{run}");
    let held = json!({"owner": "i-gone", "token": "t", "fence": 1, "expires_at": 9_000_000_000_000_u64});
    machines.redis.command(&["SET", &lock, &held.to_string()]).await.unwrap();
    let beats = machines.redis.command(&["--scan", "--pattern", "sys:instances:{*"]).await.unwrap();
    machines.redis.command(&["ZADD", &beats, &beat_before(&machines).await, "i-gone"]).await.unwrap();
    caller.complete(&job, &json!({})).await.expect(200);
    assert_eq!(caller.ended(&run).await["status"], "succeeded");
}

/// Five seconds ago, by the clock of Redis.
async fn beat_before(machines: &Machines) -> String {
    let time = machines.redis.command(&["TIME"]).await.unwrap();
    let seconds: u64 = time.lines().next().unwrap().parse().unwrap();
    (seconds * 1_000 - 5_000).to_string()
}

#[tokio::test]
async fn a_foreign_value_in_a_run_lock_holds_the_run_until_it_is_removed() {
    let machines = Machines::start(1).await;
    let server: &Server = &machines.replicas[0];
    let caller = server.caller("acme");
    caller.workflow("job", json!({"work": {"type": "worker", "topic": "work"}})).await;
    let run = caller.start("job", None, &json!({})).await.expect(200).text("run_id");
    let job = caller.claim("w", "work", 1).await.remove(0);
    let lock = format!("cordum:wf:run:lock:{run}");
    machines.redis.command(&["SET", &lock, "an operator's hand"]).await.unwrap();
    caller.complete(&job, &json!({})).await.expect(200);
    // The engine looks at the lock several times and does not advance the run.
    for _ in 0..3 {
        Monitor::begin(machines.redis.port()).await.read_until(&lock).await;
    }
    assert_eq!(caller.run(&run).await["status"], "running");
    assert_eq!(machines.redis.command(&["GET", &lock]).await.unwrap(), "an operator's hand");
    machines.redis.command(&["DEL", &lock]).await.unwrap();
    assert_eq!(caller.ended(&run).await["status"], "succeeded");
}
