//! The drill on Redis and NATS: on a server of its own, and on a replica that is there.

use serde_json::json;

use super::Machines;
use crate::drill::{PAGE, Place, expect_held, expect_no_traces, report};
use crate::walk_through::read;

#[tokio::test]
async fn every_late_write_is_refused_and_nothing_is_left() {
    let (place, machines) = (Place::new(), Machines::start(1).await);
    let (redis, nats) = (machines.redis.url(), machines.nats.url());
    let page = read(PAGE);
    let documented = page.lines().find_map(|line| line.strip_prefix("interlock drill --redis ")).unwrap();
    let own = format!("--redis {documented}").replace("redis://redis:6379", &redis);
    let own = own.replace("nats://nats:4222", &nats);
    let there = format!("--gateway {}", machines.replicas[0].base);
    for line in [own, there] {
        let arguments = format!("{line} --tenant acme --json");
        let report = report(&place.drill(&arguments.split(' ').collect::<Vec<_>>()), 0);
        expect_held(&report);
        assert_eq!(report["backend"], json!("redis"), "{line}");
        expect_no_traces(&machines.replicas[0].caller("acme")).await;
        place.expect_empty();
    }
}
