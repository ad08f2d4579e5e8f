//! The lab on Redis and NATS: the documented lock and one-step admission in one run.

use std::process::Command;

use serde_json::json;

use super::Machines;
use crate::drill::report;
use crate::lab::{PAGE, Place, expect_two_of, without_retry};
use crate::walk_through::read;

#[tokio::test]
async fn three_ways_to_decide_starts_are_measured_in_one_run() {
    let (place, machines) = (Place::new(), Machines::start(0).await);
    let (redis, nats) = (machines.redis.url(), machines.nats.url());
    let page = read(PAGE);
    let documented =
        page.lines().find_map(|line| line.strip_prefix("interlock lab --scenario admission ")).unwrap();
    let line = documented.replace("redis://redis:6379", &redis).replace("nats://nats:4222", &nats);
    let report = report(&place.lab(&format!("{line} --scenario admission --seed 7 --json")), 0);
    assert_eq!(report["backend"], json!("redis"));
    let arms = without_retry(&report);
    let strategies: Vec<_> = arms.iter().map(|arm| arm["serving"].as_str().unwrap()).collect();
    assert_eq!(strategies, ["lock fixed:10ms", "lock full_jitter:10ms:100ms", "one step"]);
    for arm in arms {
        expect_two_of(arm, 100);
        assert!(arm["figures"]["request_ms"]["p99"].as_f64() > Some(0.0), "{arm:#}");
        assert!(arm["figures"]["commands_per_request"].as_f64() > Some(0.0), "{arm:#}");
    }
    assert_eq!(report.get("left_behind"), None);
    place.expect_empty();
    expect_removable(&machines, &page);
}

/// What stays in Redis begins with the lab's prefix, and goes as the page says.
fn expect_removable(machines: &Machines, page: &str) {
    let port = machines.redis.port().to_string();
    let ask = |script: &str| {
        let output = Command::new("bash").args(["-c", script]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let keys = ask(&format!("redis-cli -p {port} --scan"));
    assert!(keys.lines().count() > 0 && keys.lines().all(|key| key.starts_with("interlock-lab:")), "{keys}");
    let documented = page.lines().find(|line| line.starts_with("redis-cli --scan ")).unwrap();
    ask(&documented.replace("redis-cli", &format!("redis-cli -p {port}")));
    assert_eq!(ask(&format!("redis-cli -p {port} dbsize")).trim(), "0");
}
