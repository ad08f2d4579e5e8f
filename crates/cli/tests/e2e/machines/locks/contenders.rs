//! Many who want one lock.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use super::super::Machines;
use super::{acquire, history, holds_one_at_a_time, release};
use crate::server::{Caller, LIMIT};

/// Long enough for everybody to have had a turn, on a busy machine.
const WAIT_MS: u64 = 60_000;
const HOLD: Duration = Duration::from_millis(1);

async fn hold_once(caller: Caller, owner: String) {
    let grant = acquire(&caller, "door", &owner, WAIT_MS).await.expect(200);
    tokio::time::sleep(HOLD).await;
    release(&caller, "door", &grant.text("token")).await.expect(204);
}

async fn commands_sent(callers: &[Caller]) -> u64 {
    let told = join_all(callers.iter().map(|caller| caller.get("/status"))).await;
    told.into_iter().map(|status| status.expect(200).body["store"]["commands_sent"].as_u64().unwrap()).sum()
}

#[tokio::test]
async fn a_thousand_contenders_over_three_replicas_hold_one_at_a_time() {
    let machines = Machines::start(3).await;
    let callers = machines.callers("acme");
    let before = commands_sent(&callers).await;
    let contenders = (0..1_000)
        .map(|number| tokio::spawn(hold_once(callers[number % 3].clone(), format!("contender-{number}"))));
    for ended in join_all(contenders).await {
        ended.unwrap();
    }
    let sent = commands_sent(&callers).await - before;
    let owners = holds_one_at_a_time(&history(&callers[0], "door").await);
    assert_eq!(owners.len(), 1_000, "each held it once");
    assert!(sent <= 10_000, "{sent} commands for 1,000 grants");
}

/// Waits until so many stand in line.
async fn until_waiting(caller: &Caller, waiting: u64) {
    let until = Instant::now() + LIMIT;
    loop {
        let lock = caller.get("/locks?resource=door").await.expect(200);
        if lock.number("waiting") == waiting {
            return;
        }
        assert!(Instant::now() < until, "{waiting} never stood in line: {lock:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn those_in_line_are_served_in_the_order_in_which_they_came_whichever_replica_they_asked() {
    let machines = Machines::start(3).await;
    let callers = machines.callers("acme");
    let first = acquire(&callers[0], "door", "first", 0).await.expect(200);
    let mut line = Vec::new();
    for number in 0..60 {
        let caller = callers[number % 3].clone();
        line.push(tokio::spawn(hold_once(caller, format!("contender-{number}"))));
        until_waiting(&callers[0], number as u64 + 1).await;
    }
    // Whoever does not stand in line is told where it would stand.
    let refused = acquire(&callers[1], "door", "late", 0).await.expect(409);
    assert_eq!((refused.text("code"), refused.text("holder")), ("lock_held".to_owned(), "first".to_owned()));
    assert_eq!(refused.number("position"), 61);
    release(&callers[0], "door", &first.text("token")).await.expect(204);
    for ended in join_all(line).await {
        ended.unwrap();
    }
    let owners = holds_one_at_a_time(&history(&callers[0], "door").await);
    let expected: Vec<_> = (0..60).map(|number| format!("contender-{number}")).collect();
    assert_eq!(owners[1..], expected);
}

#[tokio::test]
async fn l6_waiters_of_a_killed_replica_do_not_block_the_line() {
    let mut machines = Machines::start_with(3, &["--lock-silence-ms", "2000"]).await;
    let callers = machines.callers("acme");
    let first = acquire(&callers[0], "door", "first", 0).await.expect(200);
    let mut line = Vec::new();
    for number in 0..12 {
        let caller = callers[number % 3].clone();
        // The killed replica's answer nobody.
        line.push(tokio::spawn(async move {
            let asked = json!({
                "resource": "door", "owner": format!("contender-{number}"), "ttl_ms": 30_000, "wait_ms": WAIT_MS,
            });
            let method = reqwest::Method::POST;
            let grant = caller.try_send(method, "/locks/acquire", None, &asked).await?.expect(200);
            release(&caller, "door", &grant.text("token")).await.expect(204);
            Some(number)
        }));
        until_waiting(&callers[0], number as u64 + 1).await;
    }
    machines.replicas.remove(1).kill();
    release(&callers[0], "door", &first.text("token")).await.expect(204);
    let served: Vec<_> = join_all(line).await.into_iter().filter_map(Result::unwrap).collect();
    let living: Vec<_> = (0..12).filter(|number| number % 3 != 1).collect();
    assert_eq!(served, living);
    let owners = holds_one_at_a_time(&history(&callers[0], "door").await);
    let expected: Vec<_> = living.iter().map(|number| format!("contender-{number}")).collect();
    assert_eq!(owners[1..], expected, "the living are served in order");
}
