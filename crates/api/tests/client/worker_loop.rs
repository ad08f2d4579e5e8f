//! The worker loop against a scripted gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::scripted_gateway::{Answer, Request, ScriptedGateway};
use interlock_api::client::Result;
use interlock_api::jobs::ClaimedJob;
use interlock_api::worker::{HandlerOutcome, Worker, WorkerSettings};
use interlock_api::{Code, Problem};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

const RUN: &str = "0192f0c1-0000-7000-8000-000000000001";

fn job(lease_ms: u64) -> Value {
    json!({
        "job_id": format!("{RUN}:build[0]@1"), "run_id": RUN, "step_id": "build[0]", "topic": "t", "attempt": 1,
        "fence": 1_794_700_800_123_000_u64, "input": {"n": 1}, "lease_ms": lease_ms, "deadline_ms": null
    })
}

fn problem(code: Code) -> Answer {
    Answer::Json(code.status(), serde_json::to_value(Problem::new(code, "no")).unwrap())
}

/// Hands out one job, once; `others` answers everything else.
fn one_job(
    lease_ms: u64,
    others: impl Fn(&Request) -> Answer + Send + Sync,
) -> impl Fn(&Request) -> Answer + Send + Sync {
    let given = AtomicBool::new(false);
    move |request| {
        if !request.path.ends_with("/claim") {
            return others(request);
        }
        let first = !given.swap(true, Ordering::SeqCst);
        Answer::Json(200, json!({"jobs": if first { vec![job(lease_ms)] } else { vec![] }}))
    }
}

async fn work<F>(
    gateway: &ScriptedGateway,
    stop: CancellationToken,
    handler: impl Fn(ClaimedJob) -> F + Send + Sync + 'static,
) -> Result<()>
where
    F: Future<Output = HandlerOutcome> + Send + 'static,
{
    let settings = WorkerSettings::new("w1".parse().unwrap(), vec!["t".parse().unwrap()]);
    let settings = WorkerSettings { wait: Duration::ZERO, ..settings };
    Worker::new(gateway.client.clone(), settings, handler).run(stop).await
}

fn completed(output: Value) -> HandlerOutcome {
    HandlerOutcome::Completed { output }
}

#[tokio::test]
async fn a_result_is_reported_under_the_fence_of_its_job() {
    let stop = CancellationToken::new();
    let reported = stop.clone();
    let script = one_job(15_000, move |_| {
        reported.cancel();
        Answer::Json(200, json!({}))
    });
    let gateway = ScriptedGateway::start(script).await;
    work(&gateway, stop, |job| async move { completed(json!({"seen": job.input["n"]})) }).await.unwrap();
    let asked = gateway.asked(&format!("/jobs/{RUN}:build%5B0%5D@1/complete"));
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].body, json!({"fence": 1_794_700_800_123_000_u64, "output": {"seen": 1}}));
}

/// A handler that never ends, and stops the worker when it is dropped.
async fn endless(guard: DropGuard) -> HandlerOutcome {
    std::future::pending::<()>().await;
    drop(guard);
    completed(Value::Null)
}

async fn drops_its_handler_on(heartbeat: impl Fn() -> Answer + Send + Sync + 'static) {
    let stop = CancellationToken::new();
    let script = one_job(300, move |_| heartbeat());
    let gateway = ScriptedGateway::start(script).await;
    let handler_stop = stop.clone();
    work(&gateway, stop, move |_| endless(handler_stop.clone().drop_guard())).await.unwrap();
    assert!(!gateway.asked("/heartbeat").is_empty());
    assert!(gateway.asked("/complete").is_empty() && gateway.asked("/fail").is_empty());
}

#[tokio::test]
async fn a_cancelled_job_is_dropped_and_not_reported() {
    drops_its_handler_on(|| Answer::Json(200, json!({"lease_ms": 300, "cancel_requested": true}))).await;
}

#[tokio::test]
async fn a_job_whose_fence_is_stale_is_dropped_and_not_reported() {
    drops_its_handler_on(|| problem(Code::StaleFence)).await;
}

#[tokio::test]
async fn a_job_whose_lease_expires_is_dropped() {
    drops_its_handler_on(|| Answer::HangUp).await;
}

#[tokio::test]
async fn heartbeats_keep_a_job_beyond_its_first_lease() {
    let stop = CancellationToken::new();
    let (reported, beats) = (stop.clone(), Arc::new(AtomicUsize::new(0)));
    let (counted, enough) = (beats.clone(), Arc::new(tokio::sync::Notify::new()));
    let heard = enough.clone();
    let script = one_job(300, move |request| {
        if request.path.ends_with("/complete") {
            reported.cancel();
            return Answer::Json(200, json!({}));
        }
        if counted.fetch_add(1, Ordering::SeqCst) == 5 {
            heard.notify_one();
        }
        Answer::Json(200, json!({"lease_ms": 300, "cancel_requested": false}))
    });
    let gateway = ScriptedGateway::start(script).await;
    let handler = move |_| {
        let enough = enough.clone();
        async move {
            enough.notified().await;
            completed(Value::Null)
        }
    };
    work(&gateway, stop, handler).await.unwrap();
    assert_eq!(gateway.asked("/complete").len(), 1);
    assert!(beats.load(Ordering::SeqCst) >= 6);
}

#[tokio::test]
async fn a_report_is_repeated_while_the_gateway_cannot_take_it() {
    let stop = CancellationToken::new();
    let (reported, tries) = (stop.clone(), AtomicUsize::new(0));
    let script = one_job(15_000, move |_| match tries.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::HangUp,
        1 => problem(Code::GateUnavailable),
        _ => {
            reported.cancel();
            Answer::Json(200, json!({}))
        }
    });
    let gateway = ScriptedGateway::start(script).await;
    work(&gateway, stop, |_| async { completed(Value::Null) }).await.unwrap();
    assert_eq!(gateway.asked("/complete").len(), 3);
}

#[tokio::test]
async fn a_rejected_output_fails_the_job_without_retry() {
    let stop = CancellationToken::new();
    let reported = stop.clone();
    let script = one_job(15_000, move |request| {
        if request.path.ends_with("/complete") {
            return problem(Code::PayloadTooLarge);
        }
        reported.cancel();
        Answer::Json(200, json!({}))
    });
    let gateway = ScriptedGateway::start(script).await;
    work(&gateway, stop, |_| async { completed(Value::Null) }).await.unwrap();
    assert_eq!(gateway.asked("/fail")[0].body["retryable"], json!(false));
}

#[tokio::test]
async fn a_stopped_worker_finishes_the_jobs_in_progress() {
    let stop = CancellationToken::new();
    let gateway = ScriptedGateway::start(one_job(15_000, |_| Answer::Json(200, json!({})))).await;
    let begun = stop.clone();
    let handler = move |_| {
        begun.cancel();
        async {
            tokio::task::yield_now().await;
            HandlerOutcome::Failed { error: "no".to_owned(), retryable: true }
        }
    };
    work(&gateway, stop, handler).await.unwrap();
    assert_eq!(gateway.asked("/fail").len(), 1);
}

#[tokio::test]
async fn a_worker_releases_the_jobs_in_progress_on_request() {
    let (stop, release) = (CancellationToken::new(), CancellationToken::new());
    let gateway = ScriptedGateway::start(one_job(15_000, |_| Answer::Json(200, json!({})))).await;
    let (begun, asked) = (stop.clone(), release.clone());
    let handler = move |_| {
        begun.cancel();
        asked.cancel();
        std::future::pending::<HandlerOutcome>()
    };
    let settings = WorkerSettings::new("w1".parse().unwrap(), vec!["t".parse().unwrap()]);
    let worker = Worker::new(gateway.client.clone(), settings, handler).released_on(release);
    worker.run(stop).await.unwrap();
    let asked = gateway.asked("/release");
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].body["fence"], json!(1_794_700_800_123_000_u64));
}

#[tokio::test]
async fn a_wrong_key_ends_the_loop_at_once() {
    let gateway = ScriptedGateway::start(|_| problem(Code::Unauthorized)).await;
    let end = work(&gateway, CancellationToken::new(), |_| async { completed(Value::Null) }).await;
    assert_eq!(end.unwrap_err().code(), Some(Code::Unauthorized));
    assert_eq!(gateway.asked("/claim").len(), 1);
}

#[tokio::test]
async fn a_claim_is_repeated_when_the_gateway_hangs_up() {
    let stop = CancellationToken::new();
    let (enough, asked) = (stop.clone(), AtomicUsize::new(0));
    let script = move |_: &Request| {
        if asked.fetch_add(1, Ordering::SeqCst) == 2 {
            enough.cancel();
        }
        Answer::HangUp
    };
    let gateway = ScriptedGateway::start(script).await;
    work(&gateway, stop, |_| async { completed(Value::Null) }).await.unwrap();
    assert!(gateway.asked("/claim").len() >= 3);
}
