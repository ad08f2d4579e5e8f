//! Child runs through `kill -9`: each is started once, and its end reaches its parent.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::server::{Caller, Server};

pub(crate) const CHILDREN: usize = 30;

/// A run with thirty children, which each wait for a child of their own, under a cap of one.
pub(crate) async fn begin_family(caller: &Caller) -> String {
    caller.limit(1).await;
    caller.workflow("leaf", json!({"work": {"type": "worker", "topic": "work"}})).await;
    caller
        .workflow("middle", json!({"sub": {"type": "subworkflow", "input": {"workflow_id": "leaf"}}}))
        .await;
    let each = json!({
        "type": "subworkflow", "for_each": "input.items", "max_parallel": 8, "input": {"workflow_id": "middle"},
    });
    caller.workflow("family", json!({"each": each})).await;
    let items: Vec<usize> = (0..CHILDREN).collect();
    caller.start("family", None, &json!({"items": items})).await.expect(200).text("run_id")
}

/// Completes some jobs. Returns how many.
pub(crate) async fn work_some(caller: &Caller) -> usize {
    let jobs = caller.claim("w", "work", 3).await;
    for job in &jobs {
        caller.complete(job, &json!({"done": true})).await.expect(200);
    }
    jobs.len()
}

async fn children_of(caller: &Caller, run: &str) -> Vec<Value> {
    let page = caller.get(&format!("/workflow-runs?parent={run}&limit=200")).await.expect(200);
    page.body["items"].as_array().unwrap().clone()
}

/// Each item has one child, of which each has one, and all have ended.
pub(crate) async fn check_family(caller: &Caller, run: &str) {
    let ended = caller.ended(run).await;
    assert_eq!(ended["status"], "succeeded", "{}", ended["error"]);
    let items = ended["steps"]["each"]["children"].as_object().unwrap();
    assert_eq!(items.len(), CHILDREN);
    let named: BTreeSet<&str> = items.values().map(|item| item["child_run_id"].as_str().unwrap()).collect();
    let children = children_of(caller, run).await;
    let found: BTreeSet<&str> = children.iter().map(|child| child["id"].as_str().unwrap()).collect();
    assert_eq!((named.len(), &found), (CHILDREN, &named), "each item started one child");
    for child in &children {
        assert_eq!(
            (&child["status"], &child["root"], &child["depth"]),
            (&json!("succeeded"), &json!(run), &json!(1))
        );
        let leaves = children_of(caller, child["id"].as_str().unwrap()).await;
        assert_eq!(leaves.len(), 1, "{leaves:?}");
        let parent = json!({"run_id": child["id"], "step": "sub"});
        assert_eq!((&leaves[0]["parent"], &leaves[0]["depth"]), (&parent, &json!(2)));
    }
}

#[tokio::test]
async fn children_are_started_once_and_reach_their_parent_through_kills() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    let run = begin_family(&server.caller("acme")).await;
    let mut done = 0;
    while done < CHILDREN {
        done += work_some(&server.caller("acme")).await;
        if done % 2 == 0 {
            server.kill();
            server = Server::start(folder.path());
        }
    }
    check_family(&server.caller("acme"), &run).await;
}

#[tokio::test]
async fn children_end_with_a_parent_that_is_cancelled_before_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    let run = begin_family(&caller).await;
    caller.claim("w", "work", 1).await;
    caller.post(&format!("/workflow-runs/{run}/cancel"), Value::Null).await.expect(204);
    server.kill();
    let server = Server::start(folder.path());
    let caller = server.caller("acme");
    assert_eq!(caller.ended(&run).await["status"], "cancelled");
    let mut open = children_of(&caller, &run).await;
    assert!(!open.is_empty());
    while let Some(child) = open.pop() {
        let id = child["id"].as_str().unwrap();
        assert_eq!(caller.ended(id).await["status"], "cancelled");
        open.extend(children_of(&caller, id).await);
    }
}
