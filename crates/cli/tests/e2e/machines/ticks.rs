//! Loops of two replicas on one Redis: each loop ticks once per period, on one of the replicas.

use std::time::{Duration, Instant};

use interlock_poll::until;

use super::Machines;
use crate::server::Server;

const PERIOD: Duration = Duration::from_millis(200);
const TICKS: u64 = 25;

/// The value of a series in a replica's metrics.
pub(super) async fn metric(server: &Server, series: &str) -> u64 {
    let text = reqwest::get(format!("{}/metrics", server.base)).await.unwrap().text().await.unwrap();
    let line = text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
    let line = line.unwrap_or_else(|| panic!("no {series} in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

async fn ticks(machines: &Machines, of: &str) -> u64 {
    let mut sum = 0;
    for replica in &machines.replicas {
        sum += metric(replica, &format!("loop_ticks_total{{loop=\"{of}\"}}")).await;
    }
    sum
}

#[tokio::test]
async fn two_replicas_tick_once_per_period_and_one_takes_over_when_the_other_dies() {
    let mut machines = Machines::start_with(2, &["--reconcile-ms", "200", "--snapshot-ms", "200"]).await;
    let loops = [
        "reconciler:default",
        "replayer:pending",
        "workflow-engine:reconciler:default",
        "reconciler:slots",
        "reconciler:timers",
        "reconciler:retention",
        "scheduler:snapshot:writer",
    ];
    for of in loops {
        until("the loop ticks", async || ticks(&machines, of).await > 0).await;
    }
    let mut before = Vec::new();
    for of in loops {
        before.push((Instant::now(), ticks(&machines, of).await));
    }
    for (of, (began, before)) in loops.into_iter().zip(&before) {
        until("the loop ticks on", async || ticks(&machines, of).await >= before + TICKS).await;
        let made = ticks(&machines, of).await - before;
        let periods = began.elapsed().as_millis() / PERIOD.as_millis();
        // A busy machine delays ticks and never doubles them.
        assert!(u128::from(made) <= periods + 2, "{of}: {made} ticks in {periods} periods");
    }
    machines.replicas.remove(0).kill();
    let left = &machines.replicas[0];
    for of in loops {
        let series = format!("loop_ticks_total{{loop=\"{of}\"}}");
        let before = metric(left, &series).await;
        until("the other replica ticks", async || metric(left, &series).await > before).await;
    }
}
