//! A start that breaks off because its tenant's data is damaged leaves nothing behind.

use std::sync::Arc;

use interlock_backend::StoreError;
use interlock_backend::verbs::{Admit, SaveWorkflow};
use interlock_model::approval::{Approval, ApprovalState};
use interlock_model::dispatch_policy::HeldJob;
use interlock_model::job::NewJob;
use interlock_model::{JobId, StepKey, Timestamp};
use interlock_servers::Redis;
use serde_json::json;

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
    };
    let held = id("deploy");
    let plan = Arc::make_mut(start.plan.as_mut().unwrap());
    let turn = plan.first_turn.as_mut().unwrap();
    let job = NewJob { id: held, ..turn.dispatched[0].clone() };
    turn.held.push(HeldJob { job, detail: "to be decided".to_owned() });
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
