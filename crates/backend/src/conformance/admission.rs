//! Who may start.

use crate::verbs::{
    DeleteRun, DeleteWorkflow, ListActiveRuns, ListRuns, ReadRun, ReadTimeline, RecordResult, SaveWorkflow,
    SetLimits,
};
use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use interlock_model::admission::{StartOutcome, Usage};
use interlock_model::limit::Limits;
use interlock_model::limit::document::OnFull;
use interlock_model::run::{Ending, RunStatus};
use serde_json::json;

use super::Subject;
use super::scene::{Scene, acme, deploy, document, ending, globex, name, with_request, with_version};
use crate::runs::RunFilter;
use crate::tenants::LimitScope;
use crate::{PageRequest, StoreError};

pub async fn a_start_within_the_cap_is_admitted(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let start = scene.request(&acme(), None, json!({}));
    let run = start.request.run;
    let usage = Usage { runs_active: 1, runs_max: 2 };
    assert_eq!(scene.admit(start).await, StartOutcome::Admitted { run, status: RunStatus::Pending, usage });
    let found = scene.store.call(ReadRun { tenant: acme(), run }).await.unwrap().expect("the run is there");
    assert_eq!((found.head.status, found.start.workflow_version), (RunStatus::Pending, 1));
    assert_eq!(scene.store.call(ListActiveRuns { tenant: acme(), limit: 10 }).await.unwrap(), [run]);
}

pub async fn a_tenant_at_its_cap_is_refused_and_nothing_is_left_behind(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    scene.started(&acme()).await;
    let start = scene.request(&acme(), Some("k"), json!({}));
    let run = start.request.run;
    let answer = scene.admit(start).await;
    let StartOutcome::AtCapacity { usage, .. } = answer else { panic!("expected a refusal, got {answer:?}") };
    assert_eq!(usage, Usage { runs_active: 1, runs_max: 1 });
    assert_eq!(scene.store.call(ReadRun { tenant: acme(), run }).await.unwrap(), None);
    assert_eq!(scene.active(&acme()).await, 1);
}

pub async fn a_tenant_at_its_cap_does_not_stop_another_tenant(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    scene.started(&acme()).await;
    assert!(matches!(scene.start(&acme(), None).await, StartOutcome::AtCapacity { .. }));
    assert!(matches!(scene.start(&globex(), None).await, StartOutcome::Admitted { .. }));
}

pub async fn starts_at_once_never_exceed_the_cap(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 2).await;
    let tenant = acme();
    let answers = join_all((0..100).map(|_| scene.start(&tenant, None))).await;
    let admitted = answers.iter().filter(|answer| matches!(answer, StartOutcome::Admitted { .. })).count();
    let refused = answers.iter().filter(|answer| matches!(answer, StartOutcome::AtCapacity { .. })).count();
    assert_eq!((admitted, refused), (2, 98));
    assert_eq!(scene.active(&acme()).await, 2);
}

pub async fn a_replayed_start_returns_the_first_run_even_at_capacity(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let StartOutcome::Admitted { run: first, usage, .. } = scene.start(&acme(), Some("k")).await else {
        panic!("the first start is admitted")
    };
    let again = scene.start(&acme(), Some("k")).await;
    assert_eq!(again, StartOutcome::Replayed { run: first, status: Some(RunStatus::Pending), usage });
}

pub async fn starts_at_once_with_one_key_make_one_run(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 100).await;
    let tenant = acme();
    let answers = join_all((0..100).map(|_| scene.start(&tenant, Some("k")))).await;
    let runs: BTreeSet<_> = answers
        .iter()
        .map(|answer| match answer {
            StartOutcome::Admitted { run, .. } | StartOutcome::Replayed { run, .. } => *run,
            other => panic!("expected one run, got {other:?}"),
        })
        .collect();
    assert_eq!(runs.len(), 1);
    assert_eq!(answers.iter().filter(|answer| matches!(answer, StartOutcome::Admitted { .. })).count(), 1);
    assert_eq!(scene.active(&acme()).await, 1);
}

pub async fn a_key_with_another_payload_is_refused_and_names_the_first_run(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    let first = scene.request(&acme(), Some("k"), json!({"n": 1}));
    let run = first.request.run;
    let _ = scene.admit(first).await;
    let answer = scene.admit(scene.request(&acme(), Some("k"), json!({"n": 2}))).await;
    assert_eq!(answer, StartOutcome::KeyReused { run, usage: Usage { runs_active: 1, runs_max: 5 } });
    assert_eq!(scene.active(&acme()).await, 1);
}

pub async fn a_refused_start_does_not_consume_its_key(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let blocking = scene.started(&acme()).await;
    let request = scene.request(&acme(), Some("retry-after-limit"), json!({}));
    assert!(matches!(scene.admit(request.clone()).await, StartOutcome::AtCapacity { .. }));
    let turn = ending(&scene.taken(&acme(), blocking).await, Ending::Succeeded);
    let _ = scene.commit(turn).await.unwrap();
    let answer = scene.admit(request.clone()).await;
    assert!(matches!(answer, StartOutcome::Admitted { run, .. } if run == request.request.run), "{answer:?}");
}

pub async fn keys_are_scoped_by_tenant_and_workflow(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    scene.store.call(SaveWorkflow { tenant: acme(), id: name("other"), document: document() }).await.unwrap();
    assert!(matches!(scene.start(&acme(), Some("k")).await, StartOutcome::Admitted { .. }));
    assert!(matches!(scene.start(&globex(), Some("k")).await, StartOutcome::Admitted { .. }));
    let other = scene.request(&acme(), Some("k"), json!({}));
    let other = with_request(other, |request| request.workflow = name("other"));
    assert!(matches!(scene.admit(other).await, StartOutcome::Admitted { .. }));
}

pub async fn a_key_is_kept_for_its_retention_and_not_longer(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    let limits =
        Limits { runs_max: Some(5), key_retention: Some(Duration::from_secs(1)), ..Limits::default() };
    scene
        .store
        .call(SetLimits { scope: LimitScope::Tenant(acme()), limits, keeps_quotas: false })
        .await
        .unwrap();
    let _ = scene.start(&acme(), Some("k")).await;
    subject.elapse(Duration::from_millis(500)).await;
    assert!(matches!(scene.start(&acme(), Some("k")).await, StartOutcome::Replayed { .. }));
    subject.elapse(Duration::from_millis(600)).await;
    assert!(matches!(scene.start(&acme(), Some("k")).await, StartOutcome::Admitted { .. }));
    // Without a retention a key is kept for ever.
    let _ = scene.start(&globex(), Some("k")).await;
    subject.elapse(Duration::from_secs(2)).await;
    assert!(matches!(scene.start(&globex(), Some("k")).await, StartOutcome::Replayed { .. }));
}

pub async fn a_replay_of_a_deleted_run_has_no_status(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let StartOutcome::Admitted { run, .. } = scene.start(&acme(), Some("k")).await else {
        panic!("the first start is admitted")
    };
    scene.store.call(DeleteRun { tenant: acme(), run }).await.unwrap();
    let usage = Usage { runs_active: 0, runs_max: 1 };
    assert_eq!(scene.start(&acme(), Some("k")).await, StartOutcome::Replayed { run, status: None, usage });
}

pub async fn a_start_with_an_old_definition_is_rejected(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    assert_eq!(
        scene.store.call(SaveWorkflow { tenant: acme(), id: deploy(), document: document() }).await,
        Ok(2)
    );
    let usage = Usage { runs_active: 0, runs_max: 1 };
    let answer = scene.start(&acme(), None).await;
    assert_eq!(answer, StartOutcome::DefinitionChanged { current: Some(2), usage });
    scene.store.call(DeleteWorkflow { tenant: acme(), id: deploy() }).await.unwrap();
    assert_eq!(scene.start(&acme(), None).await, StartOutcome::DefinitionChanged { current: None, usage });
}

pub async fn asking_again_with_the_same_run_id_starts_once(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    for key in [None, Some("k")] {
        let mut start = scene.request(&acme(), key, json!({}));
        assert!(matches!(scene.admit(start.clone()).await, StartOutcome::Admitted { .. }));
        start.is_repeat = true;
        let again = scene.admit(start.clone()).await;
        assert!(matches!(again, StartOutcome::Admitted { run, .. } if run == start.request.run), "{again:?}");
        assert_eq!(scene.active(&acme()).await, 1);
        scene.store.call(DeleteRun { tenant: acme(), run: start.request.run }).await.unwrap();
    }
}

pub async fn another_start_with_the_id_of_a_run_is_a_conflict(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 3).await;
    let first = scene.request(&acme(), None, json!({"n": 1}));
    assert!(matches!(scene.admit(first.clone()).await, StartOutcome::Admitted { .. }));
    for key in [None, Some("k")] {
        let other = scene.request(&acme(), key, json!({"n": 2}));
        let other = with_request(other, |request| request.run = first.request.run);
        let answer = scene.store.call(other).await;
        assert!(matches!(answer, Err(StoreError::Conflict(_))), "{answer:?}");
    }
    let run = scene.store.call(ReadRun { tenant: acme(), run: first.request.run }).await.unwrap();
    assert_eq!(run.expect("the run is there").start.input, first.request.input);
    assert_eq!(scene.active(&acme()).await, 1);
    // The key that came with the conflict has started nothing.
    assert!(matches!(scene.start(&acme(), Some("k")).await, StartOutcome::Admitted { .. }));
}

pub async fn a_repeat_is_answered_before_the_definition_and_the_cap(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let mut start = scene.request(&acme(), None, json!({}));
    assert!(matches!(scene.admit(start.clone()).await, StartOutcome::Admitted { .. }));
    start.is_repeat = true;
    scene.store.call(SaveWorkflow { tenant: acme(), id: deploy(), document: document() }).await.unwrap();
    let usage = Usage { runs_active: 1, runs_max: 1 };
    assert_eq!(
        scene.admit(start.clone()).await,
        StartOutcome::Admitted { run: start.request.run, status: RunStatus::Pending, usage }
    );
    start = with_version(start, 2);
    assert_eq!(
        scene.admit(start.clone()).await,
        StartOutcome::Admitted { run: start.request.run, status: RunStatus::Pending, usage }
    );
}

pub async fn a_repeat_does_not_bring_a_deleted_run_back(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let mut start = scene.request(&acme(), None, json!({}));
    assert!(matches!(scene.admit(start.clone()).await, StartOutcome::Admitted { .. }));
    scene.store.call(DeleteRun { tenant: acme(), run: start.request.run }).await.unwrap();
    start.is_repeat = true;
    let usage = Usage { runs_active: 0, runs_max: 1 };
    assert_eq!(
        scene.admit(start.clone()).await,
        StartOutcome::Replayed { run: start.request.run, status: None, usage }
    );
    assert_eq!(scene.store.call(ReadRun { tenant: acme(), run: start.request.run }).await.unwrap(), None);
}

pub async fn a_start_with_its_first_turn_is_one_write(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let start = scene.begun(&document(), json!({"n": 7})).await;
    assert!(matches!(scene.admit(start.clone()).await, StartOutcome::Admitted { .. }));
    let found = scene
        .store
        .call(ReadRun { tenant: acme(), run: start.request.run })
        .await
        .unwrap()
        .expect("the run is there");
    assert_eq!((found.head.status, found.steps.len()), (RunStatus::Running, 1));
    assert_eq!(
        scene.take(&acme(), start.request.run).await,
        None,
        "there is nothing left for the engine to begin"
    );
    let claimed = scene.claim(&acme(), 1).await.pop().expect("the first job waits");
    assert_eq!((claimed.job.id.run, &claimed.job.input), (start.request.run, &json!({"n": 7})));
    let timeline = scene
        .store
        .call(ReadTimeline { tenant: acme(), run: start.request.run, after: 0, limit: 10 })
        .await
        .unwrap();
    assert_eq!(timeline.iter().map(|it| it.sequence).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(timeline.iter().map(|it| it.event.at).is_sorted(), "time does not go back in a story");
    let outcome = interlock_model::job::JobOutcome::completed(json!(1));
    let fence = claimed.lease.fence;
    let _ = scene
        .store
        .call(RecordResult { tenant: acme(), job: claimed.job.id.clone(), fence, outcome, edge: None })
        .await
        .unwrap();
    let taken = scene.taken(&acme(), start.request.run).await;
    let _ = scene.commit(ending(&taken, Ending::Succeeded)).await.unwrap();
    assert_eq!(scene.active(&acme()).await, 0);
}

pub async fn a_run_that_ends_with_its_first_turn_leaves_no_slot_taken(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let steps = json!({"name": "deploy", "steps": {"only": {"type": "transform", "input": {"v": 1}}}});
    let at_once = serde_json::from_value(steps).unwrap();
    for _ in 0..3 {
        let start = scene.begun(&at_once, json!({})).await;
        assert!(matches!(scene.admit(start.clone()).await, StartOutcome::Admitted { .. }));
        let found = scene
            .store
            .call(ReadRun { tenant: acme(), run: start.request.run })
            .await
            .unwrap()
            .expect("the run is there");
        assert_eq!(found.head.status, RunStatus::Succeeded);
        assert_eq!(scene.active(&acme()).await, 0);
    }
    scene.limit(&acme(), 0).await;
    let refused = scene.admit(scene.begun(&at_once, json!({})).await).await;
    assert!(matches!(refused, StartOutcome::AtCapacity { .. }), "{refused:?}");
}

pub async fn a_large_input_is_part_of_its_run(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let limits = Limits { runs_max: Some(1), on_full: Some(OnFull::Queue), ..Limits::default() };
    let scope = LimitScope::Tenant(acme());
    scene.store.call(SetLimits { scope, limits, keeps_quotas: false }).await.unwrap();
    // One starts, and one waits.
    for count in 1..=2 {
        let input = json!({"count": count, "text": "x".repeat(200_000)});
        let start = scene.request(&acme(), None, input.clone());
        let run = start.request.run;
        let _ = scene.admit(start).await;
        let found =
            scene.store.call(ReadRun { tenant: acme(), run }).await.unwrap().expect("the run is there");
        assert_eq!(found.start.input, input);
        assert!(found.start.created_at <= found.head.updated_at, "{:?}", found.start.created_at);
        let page = PageRequest { limit: 10, after: None };
        let list = ListRuns { tenant: acme(), filter: RunFilter::default(), page };
        let listed = scene.store.call(list).await.unwrap().items;
        assert_eq!((listed.len(), &listed[0].start), (count, &found.start));
        if count == 1 {
            assert_eq!(scene.taken(&acme(), run).await.start, found.start);
        }
        subject.elapse(Duration::from_millis(5)).await;
    }
}

pub async fn a_refusal_says_how_fast_slots_come_free(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    for _ in 0..3 {
        let run = scene.started(&acme()).await;
        subject.elapse(Duration::from_millis(300)).await;
        let turn = ending(&scene.taken(&acme(), run).await, Ending::Succeeded);
        let _ = scene.commit(turn).await.unwrap();
    }
    scene.started(&acme()).await;
    let StartOutcome::AtCapacity { slot_flow, .. } = scene.start(&acme(), None).await else {
        panic!("the tenant is full")
    };
    let expected = slot_flow.expected_wait().expect("three slots came free");
    assert!((200..1_000).contains(&expected.as_millis()), "{expected:?}");
}
