//! Work under a lock against a scripted gateway.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::scripted_gateway::{Answer, Request, ScriptedGateway};
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
) -> ScriptedGateway {
    let script = move |request: &Request| match request.path.rsplit('/').next() {
        Some("acquire") => acquire(),
        Some("renew") => renew(),
        _ => release(),
    };
    ScriptedGateway::start(script).await
}

/// `first` for a number of calls, and `then` for all later ones.
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
async fn work_gets_the_grant_and_the_lock_is_released_at_its_end() {
    let gateway = gateway(granted, granted, released).await;
    let end = gateway.client.with_lock(spec(), |grant| async move { grant.fence }).await;
    assert!(matches!(end, Guarded::Done(1_794_700_800_123_000)), "{end:?}");
    let asked = &gateway.asked("/acquire")[0].body;
    assert_eq!((&asked["ttl_ms"], &asked["wait_ms"]), (&json!(2_000), &json!(0)));
    assert_eq!(gateway.asked("/release")[0].body, json!({"resource": "db", "token": "t-1"}));
    assert!(gateway.asked("/renew").is_empty());
}

#[tokio::test]
async fn l3_work_is_dropped_before_the_lease_ends_when_the_gateway_is_silent() {
    let gateway = gateway(granted, || Answer::Silence, released).await;
    let began = Instant::now();
    let end = gateway.client.with_lock(spec(), |_| endless()).await;
    let took = began.elapsed();
    assert!(matches!(&end, Guarded::Lost { value: None, loss: LockLoss::LeaseExpired, .. }), "{end:?}");
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
async fn l3_work_is_dropped_when_three_renewals_in_a_row_got_no_answer() {
    let gateway = gateway(granted, || Answer::HangUp, released).await;
    let end = gateway.client.with_lock(spec(), |_| endless()).await;
    assert!(matches!(&end, Guarded::Lost { value: None, loss: LockLoss::RenewalsFailed, .. }), "{end:?}");
    assert_eq!(gateway.asked("/renew").len(), 3);
}

#[tokio::test]
async fn l3_work_is_dropped_when_a_renewal_is_refused_and_a_lost_lock_is_not_released() {
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
async fn l4_a_dropped_guard_releases_the_lock_and_stops_renewing() {
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
    let released = async {
        while gateway.asked("/release").is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), released).await.expect("the lock is released");
    assert!(gateway.asked("/renew").is_empty());
}

#[tokio::test]
async fn work_is_not_started_if_the_lock_is_held() {
    let gateway = gateway(|| problem(Code::LockHeld), granted, released).await;
    let end = gateway.client.with_lock(spec(), async |_| unreachable!("the work is not started")).await;
    assert!(
        matches!(&end, Guarded::<()>::NotAcquired(error) if error.code() == Some(Code::LockHeld)),
        "{end:?}"
    );
    assert_eq!(gateway.asked("/acquire").len(), 1);
}

#[tokio::test]
async fn an_outcome_that_stays_unknown_is_reported_as_unknown() {
    let gateway = gateway(|| Answer::HangUp, granted, released).await;
    let end = gateway.client.with_lock(spec(), async |_| unreachable!("the work is not started")).await;
    assert!(matches!(end, Guarded::<()>::Unknown(_)), "{end:?}");
    let asked = gateway.asked("/acquire");
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|request| request.body["request_id"] == asked[0].body["request_id"]));
}

#[tokio::test]
async fn l14_a_grant_that_may_be_old_is_confirmed_before_the_work_starts() {
    let gateway_with_lost_answer =
        gateway(first_then(|| Answer::HangUp, 1, granted), granted, released).await;
    let end = gateway_with_lost_answer.client.with_lock(spec(), async |_| ()).await;
    assert!(matches!(end, Guarded::Done(())), "{end:?}");
    assert_eq!(gateway_with_lost_answer.asked("/renew").len(), 1);

    let gateway = gateway(granted, || problem(Code::StaleFence), released).await;
    let spec = LockSpec { request: Some("again".parse().unwrap()), ..spec() };
    let end = gateway.client.with_lock(spec, async |_| unreachable!("the work is not started")).await;
    assert!(matches!(end, Guarded::<()>::NotAcquired(_)), "{end:?}");
}

#[tokio::test]
async fn l19_a_release_with_a_lost_answer_is_repeated() {
    let gateway = gateway(granted, granted, first_then(|| Answer::HangUp, 1, released)).await;
    let end = gateway.client.with_lock(spec(), async |_| 7).await;
    assert!(matches!(end, Guarded::Done(7)), "{end:?}");
    assert_eq!(gateway.asked("/release").len(), 2);
}

#[tokio::test]
async fn work_whose_lock_was_lost_at_its_end_is_reported_with_its_value() {
    let gateway = gateway(granted, granted, || problem(Code::StaleFence)).await;
    let end = gateway.client.with_lock(spec(), async |_| 7).await;
    assert!(matches!(&end, Guarded::Lost { value: Some(7), loss: LockLoss::Refused(_), .. }), "{end:?}");
}
