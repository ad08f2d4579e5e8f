//! Many contenders for one lock.

use std::time::Duration;

use futures_util::future::join_all;
use interlock_poll::until_matches;
use serde_json::json;

use super::super::Machines;
use super::{acquire, history, owners_in_order, release};
use crate::server::Caller;

/// The longest wait that a request may ask for.
const WAIT_MS: u64 = 60_000;
const WAITS_MAX: usize = 5;
const HOLD: Duration = Duration::from_millis(1);

async fn hold_once(caller: Caller, owner: String) {
    let mut answer = acquire(&caller, "door", &owner, WAIT_MS).await;
    // On a busy machine, one wait may be too short for all contenders before this one.
    for _ in 1..WAITS_MAX {
        if answer.status == 409 {
            answer = acquire(&caller, "door", &owner, WAIT_MS).await;
        }
    }
    let grant = answer.expect(200);
    tokio::time::sleep(HOLD).await;
    release(&caller, "door", &grant.text("token")).await.expect(204);
}

async fn commands_sent(callers: &[Caller]) -> u64 {
    let statuses = join_all(callers.iter().map(|caller| caller.get("/status"))).await;
    statuses
        .into_iter()
        .map(|status| status.expect(200).body["store"]["commands_sent"].as_u64().unwrap())
        .sum()
}

#[tokio::test]
async fn a_thousand_contenders_over_three_replicas_hold_one_at_a_time() {
    // Waiters that need not show that they are alive send nothing while they wait, however long a busy machine takes.
    let machines = Machines::start_with(3, &["--lock-silence-ms", "600000"]).await;
    let callers = machines.callers("acme");
    let before = commands_sent(&callers).await;
    let contenders = (0..1_000)
        .map(|number| tokio::spawn(hold_once(callers[number % 3].clone(), format!("contender-{number}"))));
    for ended in join_all(contenders).await {
        ended.unwrap();
    }
    let sent = commands_sent(&callers).await - before;
    let owners = owners_in_order(&history(&callers[0], "door").await);
    assert_eq!(owners.len(), 1_000, "each held it once");
    assert!(sent <= 10_000, "{sent} commands for 1,000 grants");
}

/// Waits until this number of contenders is in the queue.
async fn until_waiting(caller: &Caller, waiting: u64) {
    let lock = async || caller.get("/locks?resource=door").await.expect(200);
    until_matches(&format!("{waiting} wait"), lock, |lock| lock.number("waiting") == waiting).await;
}

#[tokio::test]
async fn waiters_are_served_in_the_order_of_their_requests_over_all_replicas() {
    let machines = Machines::start(3).await;
    let callers = machines.callers("acme");
    let first = acquire(&callers[0], "door", "first", 0).await.expect(200);
    let mut queue = Vec::new();
    for number in 0..60 {
        let caller = callers[number % 3].clone();
        queue.push(tokio::spawn(hold_once(caller, format!("contender-{number}"))));
        until_waiting(&callers[0], number as u64 + 1).await;
    }
    // A request that does not wait is refused with the position that it would have.
    let refused = acquire(&callers[1], "door", "late", 0).await.expect(409);
    assert_eq!((refused.text("code"), refused.text("holder")), ("lock_held".to_owned(), "first".to_owned()));
    assert_eq!(refused.number("position"), 61);
    release(&callers[0], "door", &first.text("token")).await.expect(204);
    for ended in join_all(queue).await {
        ended.unwrap();
    }
    let owners = owners_in_order(&history(&callers[0], "door").await);
    let expected: Vec<_> = (0..60).map(|number| format!("contender-{number}")).collect();
    assert_eq!(owners[1..], expected);
}

#[tokio::test]
async fn l6_waiters_of_a_killed_replica_do_not_block_the_line() {
    let mut machines = Machines::start_with(3, &["--lock-silence-ms", "2000"]).await;
    let callers = machines.callers("acme");
    let first = acquire(&callers[0], "door", "first", 0).await.expect(200);
    let mut queue = Vec::new();
    for number in 0..12 {
        let caller = callers[number % 3].clone();
        // The clients of the killed replica get no answer.
        queue.push(tokio::spawn(async move {
            let request = json!({
                "resource": "door", "owner": format!("contender-{number}"), "ttl_ms": 30_000, "wait_ms": WAIT_MS,
            });
            let method = reqwest::Method::POST;
            let grant = caller.try_send(method, "/locks/acquire", None, &request).await?.expect(200);
            release(&caller, "door", &grant.text("token")).await.expect(204);
            Some(number)
        }));
        until_waiting(&callers[0], number as u64 + 1).await;
    }
    machines.replicas.remove(1).kill();
    release(&callers[0], "door", &first.text("token")).await.expect(204);
    let served: Vec<_> = join_all(queue).await.into_iter().filter_map(Result::unwrap).collect();
    let living: Vec<_> = (0..12).filter(|number| number % 3 != 1).collect();
    assert_eq!(served, living);
    let owners = owners_in_order(&history(&callers[0], "door").await);
    let expected: Vec<_> = living.iter().map(|number| format!("contender-{number}")).collect();
    assert_eq!(owners[1..], expected, "the living are served in order");
}
