//! Held jobs, settled by the stage, with a service that a test switches on and off.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod scene;

use std::time::Duration;

use interlock_backend::faulty::Faults;
use interlock_control::dispatch_policy::DispatchPolicy;
use interlock_control::policy::{ExplainTarget, SettlingReport};
use interlock_control::service::{Roles, run_stages};
use interlock_model::dispatch_policy::{FailureMode, HoldReason};
use interlock_model::meta::JobMeta;
use scene::{Scene, tenant};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn fail_closed_jobs_wait_longer_each_time_and_go_when_the_service_is_back() {
    let scene = Scene::new().await;
    let process = scene.process(1, &scene.asking(FailureMode::Closed));
    scene.service.set_away(true);
    let jobs = scene.start(&process, "acme", 40).await;
    let report = scene.settle(&process).await;
    assert_eq!((report.waiting, report.released), (40, 0));
    assert_eq!(scene.service.asked(), 3, "then the breaker is open");

    let mut longest = Duration::ZERO;
    for _ in 0..40 {
        tokio::time::advance(SECOND).await;
        scene.settle(&process).await;
        let hold = scene.hold(&jobs[7]).await.unwrap();
        assert_eq!(hold.reason, HoldReason::PolicyUnavailable);
        assert!(hold.detail.starts_with("policy service unavailable since 20"), "{hold:?}");
        longest = longest.max(hold.look_at.unwrap().since(scene.now()));
    }
    assert!((5 * SECOND..=10 * SECOND).contains(&longest), "{longest:?}");
    // A probe every two seconds, and no more than that.
    assert!((15..=30).contains(&scene.service.asked()), "{}", scene.service.asked());

    scene.service.set_away(false);
    tokio::time::advance(2 * SECOND).await;
    scene.settle(&process).await;
    assert_eq!(scene.claim("acme").await.len(), 40, "no job waits for the end of its own pause");
    assert_eq!(process.policy.fail_opens(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_back_and_tells_everybody_to_wait_is_not_asked_for_ever() {
    let scene = Scene::new().await;
    let process = scene.process(1, &scene.asking(FailureMode::Closed));
    scene.service.set_away(true);
    scene.start(&process, "acme", 40).await;
    scene.settle(&process).await;
    scene.service.set_away(false);
    scene.service.set_throttling();
    tokio::time::advance(10 * SECOND).await;
    let report = scene.settle(&process).await;
    assert_eq!(report.released, 0);
    assert!(scene.service.asked() <= 40 * 3, "{} questions about 40 jobs", scene.service.asked());
}

#[tokio::test(start_paused = true)]
async fn fail_open_jobs_go_on_and_each_is_counted_once() {
    let scene = Scene::new().await;
    let process = scene.process(1, &scene.asking(FailureMode::Open));
    scene.service.set_away(true);
    scene.start(&process, "acme", 5).await;
    assert_eq!(scene.settle(&process).await.released, 5);
    assert_eq!((scene.claim("acme").await.len(), process.policy.fail_opens()), (5, 5));
    scene.service.set_away(false);
    tokio::time::advance(2 * SECOND).await;
    scene.start(&process, "acme", 5).await;
    assert_eq!(scene.settle(&process).await.released, 5);
    assert_eq!(process.policy.fail_opens(), 5, "what the service has judged is not counted");
}

#[tokio::test(start_paused = true)]
async fn two_processes_that_look_at_once_ask_about_each_job_once() {
    let scene = Scene::new().await;
    let policy = scene.asking(FailureMode::Closed);
    let (one, other) = (scene.process(1, &policy), scene.process(2, &policy));
    scene.start(&one, "acme", 20).await;
    let (first, second) = tokio::join!(scene.settle(&one), scene.settle(&other));
    assert_eq!(first.released + second.released, 20);
    assert_eq!(scene.service.asked(), 20);
    assert_eq!(scene.claim("acme").await.len(), 20);
}

#[tokio::test(start_paused = true)]
async fn jobs_that_were_held_under_a_policy_that_is_gone_go_on() {
    let scene = Scene::new().await;
    let strict = scene.process(1, &scene.asking(FailureMode::Closed));
    scene.service.set_away(true);
    scene.start(&strict, "acme", 3).await;
    scene.settle(&strict).await;
    let free = scene.process(2, &DispatchPolicy::default());
    tokio::time::advance(10 * SECOND).await;
    assert_eq!(scene.settle(&free).await.released, 3);
    assert_eq!(scene.claim("acme").await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_bad_line_to_the_store_loses_and_doubles_nothing() {
    let scene = Scene::new().await;
    let process = scene.process(1, &scene.asking(FailureMode::Closed));
    for name in ["acme", "globex"] {
        scene.start(&process, name, 50).await;
    }
    let losses = Faults { requests_lost: 200, replies_lost: 200, ..Faults::NONE };
    scene.line.set_faults(losses);
    let mut failed = 0;
    for _ in 0..60 {
        // Either may be lost on the line, too; the next look finds what is due.
        let _ = process.reconcilers.run_once().await;
        failed += process.policy.run_once().await.failed;
        tokio::time::advance(8 * SECOND).await;
    }
    scene.line.set_faults(Faults::NONE);
    scene.settle(&process).await;
    assert!(failed > 0, "the line was not bad enough");
    for name in ["acme", "globex"] {
        assert_eq!(scene.claim(name).await.len(), 50, "{name}");
        assert_eq!(scene.claim(name).await.len(), 0, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_rule_allows_goes_to_its_queue_with_the_turn_and_is_never_held() {
    let scene = Scene::new().await;
    let mut policy = scene.asking(FailureMode::Closed);
    policy.rules =
        serde_json::from_value(json!([{"name": "work", "topics": ["w*"], "decision": "allow"}])).unwrap();
    let process = scene.process(1, &policy);
    scene.start(&process, "acme", 3).await;
    assert_eq!(scene.claim("acme").await.len(), 3);
    assert_eq!((scene.settle(&process).await, scene.service.asked()), (SettlingReport::default(), 0));
    assert!(scene.store_due_held().await.is_empty());
    let explained = process
        .policy
        .explain(
            &tenant("acme"),
            &ExplainTarget::Imagined { topic: "work".parse().unwrap(), meta: JobMeta::default() },
        )
        .await;
    assert_eq!(explained.judgement.words(), "rule work says allow");
}

#[tokio::test(start_paused = true)]
async fn an_explanation_has_every_rule_up_to_the_one_that_decides() {
    let scene = Scene::new().await;
    let rules = json!([
        {"name": "other", "topics": ["other"], "decision": "deny"},
        {"name": "work", "topics": ["work"], "decision": "allow"},
        {"name": "rest", "decision": "deny"},
    ]);
    let policy = DispatchPolicy { rules: serde_json::from_value(rules).unwrap(), service: None };
    let process = scene.process(1, &policy);
    let asked = ExplainTarget::Imagined { topic: "work".parse().unwrap(), meta: JobMeta::default() };
    let explained = process.policy.explain(&tenant("acme"), &asked).await;
    let checks: Vec<_> =
        explained.checks.iter().map(|check| (check.rule.name.as_str(), check.mismatch.is_none())).collect();
    assert_eq!(checks, [("other", false), ("work", true)]);
}

#[tokio::test(start_paused = true)]
async fn the_stage_settles_held_jobs_by_itself() {
    let scene = Scene::new().await;
    let process = scene.process(1, &scene.asking(FailureMode::Closed));
    let shutdown = CancellationToken::new();
    let roles = Roles { engine: false, scheduler: true };
    tokio::spawn(run_stages(process.clone(), roles, shutdown.clone()));
    tokio::time::sleep(SECOND).await;
    scene.start(&process, "acme", 3).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(scene.claim("acme").await.len(), 3);
    shutdown.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_job_that_the_service_throttles_is_not_asked_about_before_it_is_due() {
    let scene = Scene::new().await;
    let process = scene.process(1, &scene.asking(FailureMode::Closed));
    scene.service.set_throttling();
    scene.start(&process, "acme", 1).await;
    assert_eq!(scene.settle(&process).await.waiting, 1);
    assert_eq!(scene.settle(&process).await, SettlingReport::default());
    assert_eq!(scene.service.asked(), 1);
}
