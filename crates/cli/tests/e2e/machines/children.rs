//! Child runs on replicas, of which one after the other is killed.

use super::Machines;
use crate::children::{begin_family, check_family, work_some};

#[tokio::test]
async fn children_are_started_once_while_replicas_are_killed() {
    let mut machines = Machines::start(2).await;
    let run = begin_family(&machines.callers("acme")[0]).await;
    for round in 0.. {
        assert!(round < 100, "the run does not end");
        if work_some(&machines.callers("acme")[0], &run).await {
            break;
        }
        if round % 3 == 0 {
            machines.replicas.remove(0).kill();
            machines.replicas.push(machines.replica());
        }
    }
    check_family(&machines.callers("acme")[0], &run).await;
}
