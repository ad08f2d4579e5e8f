//! Work under a lock against a gateway that answers by a script.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::stand_in::{Answer, Request, StandIn};
use interlock_api::lock_guard::{Guarded, LockLoss, LockSpec};
use interlock_api::{Code, Problem};
use serde_json::{Value, json};
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(2);

fn spec() -> LockSpec {
    LockSpec { ttl: TTL, ..LockSpec::new("db".parse().unwrap(), "ada".parse().unwrap()) }
}

fn granted() -> Answer {
    let grant = json!({"resource": "db", "mode": "exclusive", "owner": "ada", "token": "t-1",
        "fence": 1_794_700_800_123_000_u64, "expires_at": "2026-11-15T00:00:00.000Z"});
    Answer::Json(200, grant)
}

fn problem(code: Code) -> Answer {
    Answer::Json(code.status(), serde_json::to_value(Problem::new(code, "no")).unwrap())
}

fn released() -> Answer {
    Answer::Json(204, Value::Null)
}

/// Answers by the last part of the path.
async fn gateway(
    acquire: impl Fn() -> Answer + Send + Sync + 'static,
    renew: impl Fn() -> Answer + Send + Sync + 'static,
    release: impl Fn() -> Answer + Send + Sync + 'static,
) -> StandIn {
    let script = move |request: &Request| match request.path.rsplit('/').next() {
        Some("acquire") => acquire(),
        Some("renew") => renew(),
        _ => release(),
    };
    StandIn::start(script).await
}

/// The first answers, one after the other, and then the last for ever.
fn first_then(
    first: impl Fn() -> Answer + Send + Sync + 'static,
    times: usize,
    then: impl Fn() -> Answer + Send + Sync + 'static,
) -> impl Fn() -> Answer + Send + Sync + 'static {
    let calls = AtomicUsize::new(0);
    move || if calls.fetch_add(1, Ordering::SeqCst) < times { first() } else { then() }
}

/// Work that never ends.
async fn endless() {
    pending::<()>().await;
}

#[tokio::test]
async fn work_gets_the_grant_and_the_lock_is_given_back_at_its_end() {
    let gateway = gateway(granted, granted, released).await;
    let end = gateway.client.with_lock(spec(), |grant| async move { grant.fence }).await;
    assert!(matches!(end, Guarded::Done(1_794_700_800_123_000)), "{end:?}");
    let asked = &gateway.asked("/acquire")[0].body;
    assert_eq!((&asked["ttl_ms"], &asked["wait_ms"]), (&json!(2_000), &json!(0)));
    assert_eq!(gateway.asked("/release")[0].body, json!({"resource": "db", "token": "t-1"}));
    assert!(gateway.asked("/renew").is_empty());
}

#[tokio::test]
async fn l3_work_is_dropped_before_the_lease_is_over_when_the_gateway_says_nothing() {
    let gateway = gateway(granted, || Answer::Silence, released).await;
    let began = Instant::now();
    let end = gateway.client.with_lock(spec(), |_| endless()).await;
    let took = began.elapsed();
    assert!(matches!(&end, Guarded::Lost { value: None, loss: LockLoss::LeaseRanOut, .. }), "{end:?}");
    assert!(took < TTL, "{took:?}");
    assert!(!gateway.asked("/renew").is_empty());
}

#[tokio::test]
async fn l3_work_is_dropped_when_three_renewals_in_a_row_have_failed() {
    let gateway = gateway(granted, || problem(Code::GateUnavailable), released).await;
    let end = gateway.client.with_lock(spec(), |_| endless()).await;
    assert!(matches!(&end, Guarded::Lost { value: None, loss: LockLoss::RenewalsFailed, .. }), "{end:?}");
    assert_eq!(gateway.asked("/renew").len(), 3);
}

#[tokio::test]
async fn l16_renewals_whose_answers_are_lost_are_no_failures_and_only_the_deadline_counts() {
    let gateway = gateway(granted, || Answer::HangUp, released).await;
    let end = gateway.client.with_lock(spec(), |_| endless()).await;
    assert!(matches!(&end, Guarded::Lost { value: None, loss: LockLoss::LeaseRanOut, .. }), "{end:?}");
    assert!(gateway.asked("/renew").len() > 3);
}

#[tokio::test]
async fn l3_work_is_dropped_when_a_renewal_is_refused_and_what_is_anothers_is_not_given_back() {
    let gateway = gateway(granted, || problem(Code::StaleFence), released).await;
    let end = gateway.client.with_lock(spec(), |_| endless()).await;
    assert!(matches!(&end, Guarded::Lost { value: None, loss: LockLoss::Refused(_), .. }), "{end:?}");
    assert_eq!(gateway.asked("/renew").len(), 1);
    assert!(gateway.asked("/release").is_empty());
}

#[tokio::test]
async fn renewals_keep_the_lock_beyond_its_first_lease() {
    let gateway = gateway(granted, granted, released).await;
    let began = Instant::now();
    let enough = async |_| {
        while gateway.asked("/renew").len() < 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let end = gateway.client.with_lock(spec(), enough).await;
    assert!(matches!(end, Guarded::Done(())), "{end:?}");
    assert!(began.elapsed() > TTL);
}

#[tokio::test]
async fn l4_a_guard_that_was_dropped_gives_the_lock_back_and_renews_no_more() {
    let gateway = gateway(granted, granted, released).await;
    let (began, has_begun) = tokio::sync::oneshot::channel();
    let client = gateway.client.clone();
    let guarded = tokio::spawn(async move {
        let work = async |_| {
            began.send(()).unwrap();
            endless().await;
        };
        client.with_lock(spec(), work).await
    });
    has_begun.await.unwrap();
    guarded.abort();
    let given_back = async {
        while gateway.asked("/release").is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), given_back).await.expect("it is given back");
    assert!(gateway.asked("/renew").is_empty());
}

#[tokio::test]
async fn what_is_held_by_another_is_not_begun() {
    let gateway = gateway(|| problem(Code::LockHeld), granted, released).await;
    let end = gateway.client.with_lock(spec(), async |_| unreachable!("nothing is begun")).await;
    assert!(
        matches!(&end, Guarded::<()>::NotAcquired(error) if error.code() == Some(Code::LockHeld)),
        "{end:?}"
    );
    assert_eq!(gateway.asked("/acquire").len(), 1);
}

#[tokio::test]
async fn an_outcome_that_stays_unknown_is_told_as_that() {
    let gateway = gateway(|| Answer::HangUp, granted, released).await;
    let end = gateway.client.with_lock(spec(), async |_| unreachable!("nothing is begun")).await;
    assert!(matches!(end, Guarded::<()>::Unknown(_)), "{end:?}");
    let asked = gateway.asked("/acquire");
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|request| request.body["request_id"] == asked[0].body["request_id"]));
}

#[tokio::test]
async fn l14_a_grant_that_may_be_old_is_confirmed_before_the_work_begins() {
    let gateway_with_lost_answer =
        gateway(first_then(|| Answer::HangUp, 1, granted), granted, released).await;
    let end = gateway_with_lost_answer.client.with_lock(spec(), async |_| ()).await;
    assert!(matches!(end, Guarded::Done(())), "{end:?}");
    assert_eq!(gateway_with_lost_answer.asked("/renew").len(), 1);

    let gateway = gateway(granted, || problem(Code::StaleFence), released).await;
    let spec = LockSpec { request: Some("again".parse().unwrap()), ..spec() };
    let end = gateway.client.with_lock(spec, async |_| unreachable!("nothing is begun")).await;
    assert!(matches!(end, Guarded::<()>::NotAcquired(_)), "{end:?}");
}

#[tokio::test]
async fn l19_a_release_whose_answer_was_lost_is_repeated() {
    let gateway = gateway(granted, granted, first_then(|| Answer::HangUp, 1, released)).await;
    let end = gateway.client.with_lock(spec(), async |_| 7).await;
    assert!(matches!(end, Guarded::Done(7)), "{end:?}");
    assert_eq!(gateway.asked("/release").len(), 2);
}

#[tokio::test]
async fn work_whose_lock_had_gone_at_its_end_is_told_with_its_value() {
    let gateway = gateway(granted, granted, || problem(Code::StaleFence)).await;
    let end = gateway.client.with_lock(spec(), async |_| 7).await;
    assert!(matches!(&end, Guarded::Lost { value: Some(7), loss: LockLoss::Refused(_), .. }), "{end:?}");
}
