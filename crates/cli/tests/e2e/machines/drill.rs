//! The drill on Redis and NATS: on a server of its own, and on a replica that is there.

use serde_json::json;

use super::Machines;
use crate::drill::{Place, expect_held, expect_no_traces, report};

#[tokio::test]
async fn every_late_write_is_refused_and_nothing_is_left() {
    let (place, machines) = (Place::new(), Machines::start(1).await);
    let (redis, nats) = (machines.redis.url(), machines.nats.url());
    let own = ["--redis", &redis, "--nats", &nats, "--tenant", "acme", "--json"];
    let there = ["--gateway", &machines.replicas[0].base, "--tenant", "acme", "--json"];
    for arguments in [&own[..], &there[..]] {
        let report = report(&place.drill(arguments), 0);
        expect_held(&report);
        assert_eq!(report["backend"], json!("redis"));
        expect_no_traces(&machines.replicas[0].caller("acme")).await;
        place.expect_empty();
    }
}
