//! A start that breaks off because its tenant's data is damaged leaves nothing behind.

use std::sync::Arc;

use interlock_backend::Store;
use interlock_backend::StoreError;
use interlock_backend::verbs::{Admit, SaveLimit, SaveWorkflow};
use interlock_model::admission::StartOutcome;
use interlock_model::approval::{Approval, ApprovalState};
use interlock_model::dispatch_policy::{HeldJob, HoldReason};
use interlock_model::job::NewJob;
use interlock_model::{JobId, StepKey, Timestamp};
use interlock_servers::Redis;
use serde_json::json;

use super::limit_replies::counted;
use super::{acme, deploy, document, name, open, request, server};

/// A start whose first turn dispatches a job, holds another and opens an approval.
fn start() -> Admit {
    let mut start = request(1, true);
    let id = |step: &str| JobId { run: start.request.run, step: StepKey::whole(&name(step)), attempt: 1 };
    let approval = Approval {
        job: id("ask"),
        workflow: deploy(),
        requested_at: Timestamp::from_millis(1_794_700_800_000),
        input: json!({}),
        state: ApprovalState::Open,
        because: None,
    };
    let held = id("deploy");
    let plan = Arc::make_mut(start.plan.as_mut().unwrap());
    let turn = plan.first_turn.as_mut().unwrap();
    let job = NewJob { id: held, ..turn.dispatched[0].clone() };
    turn.held.push(HeldJob { job, reason: HoldReason::PolicyPending, detail: "to be decided".to_owned() });
    turn.approvals_opened.push(approval);
    start
}

async fn keys(server: &Redis) -> Vec<String> {
    let keys = server.command(&["KEYS", "*{acme}*"]).await.unwrap();
    let mut keys: Vec<String> = keys.lines().map(str::to_owned).collect();
    keys.sort();
    keys
}

#[tokio::test]
async fn wherever_a_start_breaks_off_nothing_of_it_is_left() {
    let server = server().await;
    let store = open(&server.url()).await;
    let run = start().request.run;
    let of_run = format!("wf:run:approvals:{{acme}}:{run}");
    let places = [
        "wf:runs:{acme}",
        "wf:jobs:{acme}",
        "wf:queue:{acme}:build",
        "wf:held:{acme}",
        "wf:approvals:open:{acme}",
        of_run.as_str(),
    ];
    for damaged in places {
        server.command(&["FLUSHALL"]).await.unwrap();
        let save = SaveWorkflow { tenant: acme(), id: deploy(), document: document("deploy") };
        store.call(save).await.unwrap();
        server.command(&["SET", damaged, "damaged"]).await.unwrap();
        let before = keys(&server).await;
        let answer = store.call(start()).await;
        assert!(matches!(answer, Err(StoreError::Damaged { .. })), "{damaged}: {answer:?}");
        assert_eq!(keys(&server).await, before, "{damaged}");
    }
}

/// A tenant with a limit in which these starts count.
async fn limited(server: &Redis, store: &Store, limit: serde_json::Value, starts: std::ops::Range<u64>) {
    server.command(&["FLUSHALL"]).await.unwrap();
    let save = SaveWorkflow { tenant: acme(), id: deploy(), document: document("deploy") };
    store.call(save).await.unwrap();
    let document = serde_json::from_value(limit).unwrap();
    let save = SaveLimit { tenant: acme(), name: name("one"), document, book: 0, replaces: None };
    store.call(save).await.unwrap();
    for number in starts {
        let outcome = store.call(counted(number, "one", 1)).await.unwrap();
        assert!(
            matches!(outcome, StartOutcome::Admitted { .. } | StartOutcome::Queued { .. }),
            "{outcome:?}"
        );
    }
}

#[tokio::test]
async fn wherever_a_start_breaks_off_its_slots_and_its_place_are_left_to_others() {
    let server = server().await;
    let store = open(&server.url()).await;
    let live = counted(1, "one", 1).request.run;
    let last = counted(2, "one", 1).request.run;
    let queues = json!({"max_runs": 1, "on_full": "queue"});
    let paced = json!({"rate": {"starts": 1, "period_sec": 60}, "on_full": "queue"});
    let replaces = json!({"max_runs": 1, "on_full": "replace_running"});
    let takes_place = json!({"max_runs": 1, "on_full": "replace_queued"});
    let cases = [
        (&queues, 1..1, "wf:limit:live:{acme}:one:".to_owned()),
        (&queues, 1..1, "wf:limit:groups:{acme}:one".to_owned()),
        (&queues, 1..2, "wf:limit:queue:{acme}:one:".to_owned()),
        (&queues, 1..2, "wf:limit:queues:{acme}:one".to_owned()),
        (&paced, 1..2, "wf:limit:timers:{acme}".to_owned()),
        (&replaces, 1..2, format!("wf:inbox:{{acme}}:{live}")),
        (&takes_place, 1..3, format!("wf:inbox:{{acme}}:{last}")),
    ];
    for (limit, starts, damaged) in cases {
        limited(&server, &store, limit.clone(), starts).await;
        server.command(&["SET", &damaged, "damaged"]).await.unwrap();
        let queue = ["ZRANGE", "wf:limit:queue:{acme}:one:", "0", "-1"];
        let before = (keys(&server).await, server.command(&queue).await.ok());
        let answer = store.call(counted(3, "one", 1)).await;
        assert!(matches!(answer, Err(StoreError::Damaged { .. })), "{damaged}: {answer:?}");
        assert_eq!((keys(&server).await, server.command(&queue).await.ok()), before, "{damaged}");
    }
}
