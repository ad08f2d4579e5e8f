//! Events on two replicas: sent to one, awaited at the other, while replicas are killed.

use serde_json::json;

use super::Machines;
use crate::events::{send_to_order, wait_for_order};

#[tokio::test]
async fn an_event_that_is_sent_to_one_replica_reaches_the_runs_of_all_once() {
    let machines = Machines::start(2).await;
    let callers = machines.callers("acme");
    let runs = wait_for_order(&callers, 1).await;
    assert_eq!(send_to_order(&callers[0], 1, "e-1").await["runs"], 2);
    // The answer was lost: the same event again, at the other replica.
    assert_eq!(send_to_order(&callers[1], 1, "e-1").await["replayed"], true);
    for run in &runs {
        assert_eq!(callers[1].ended(run).await["output"], json!({"wait": {"by": "e-1"}}));
    }
}

#[tokio::test]
async fn an_acknowledged_event_reaches_a_run_whose_replica_is_killed() {
    let mut machines = Machines::start(2).await;
    let callers = machines.callers("acme");
    let runs = wait_for_order(&callers, 2).await;
    assert_eq!(send_to_order(&callers[0], 2, "e-2").await["runs"], 2);
    machines.replicas.remove(0).kill();
    let caller = machines.callers("acme").remove(0);
    for run in &runs {
        assert_eq!(caller.ended(run).await["output"], json!({"wait": {"by": "e-2"}}));
    }
    assert_eq!(send_to_order(&caller, 3, "e-3").await["kept"], true);
    let run = caller.start("keyed", None, &json!({"order": 3})).await.expect(200).text("run_id");
    assert_eq!(caller.ended(&run).await["output"], json!({"wait": {"by": "e-3"}}));
}
