//! Child runs on replicas, of which one after the other is killed.

use super::Machines;
use crate::children::{CHILDREN, begin_family, check_family, work_some};

#[tokio::test]
async fn children_are_started_once_while_replicas_are_killed() {
    let mut machines = Machines::start(2).await;
    let run = begin_family(&machines.callers("acme")[0]).await;
    let mut done = 0;
    while done < CHILDREN {
        done += work_some(&machines.callers("acme")[0]).await;
        if done % 3 == 0 {
            machines.replicas.remove(0).kill();
            machines.replicas.push(machines.replica());
        }
    }
    check_family(&machines.callers("acme")[0], &run).await;
}
