//! Values belong to the tenant: whatever was given comes back byte for byte, through every row and every index.

use crate::verbs::{
    ListApprovals, ListRuns, ListWorkflows, ReadDeadLetter, ReadJob, ReadRun, ReadTimeline, ReadWorkflow,
    ReadWorkflowVersion, RecordResult, RequestCancel, ResolveApproval, SaveWorkflow,
};
use interlock_model::approval::{Decision, Verdict};
use interlock_model::dead_letter::DeadLetter;
use interlock_model::history::{Event, EventKind};
use interlock_model::job::{JobOutcome, NewJob};
use interlock_model::run::InboxEvent;
use interlock_model::step::StepRun;
use interlock_model::workflow::WorkflowDocument;
use interlock_model::{RunId, StepKey};
use serde_json::{Value, json};

use super::Subject;
use super::scene::{Scene, acme, approval, deploy, document, idle, letter, name, new_job, outcomes, running};
use crate::PageRequest;
use crate::runs::RunFilter;
use crate::workflows::WorkflowVersion;

/// What a reader that holds numbers as doubles changes, and what stands here as it is written.
const NUMBERS: &str = "[9007199254740993,-9007199254740993,123456789012345678901234567890,18446744073709551616,\
                       1794700800000001,0.1,-0.0,0,1.0,1,2.50,1e+400,3.141592653589793238462643383279]";

/// What a reader that takes an empty array for an empty object, or a text for a pattern, changes.
const SHAPES: &str = r#"{
    "empty": {"array": [], "object": {}, "text": "", "nothing": null, "no": false},
    "nested": [[], {}, [[]], [{}], {"a": {"b": []}}, {"a": [{}, []]}, [null], [[[[[[{}]]]]]]],
    "texts": ["\u0000", "a\u0000b", "\"", "\\", "\\\"", "\\u0000", "\n\r\t\b\f", "\u007f\u2028"],
    "patterns": ["/", "%d %s %%", "{acme}:*", "$1", "^.*$"],
    "emoji": ["🦀", "👩‍👩‍👧", "\ud83d\ude00", "é", "e\u0301", "\uffff"],
    "keys": {"": 1, "a.b": 2, "a/b": 3, "a:b@1[0]": 4, "\"": 5, "\\": 6, "\u0000": 7, "🦀": 8, "1": 9, "__proto__": 10}
}"#;

fn odd() -> Value {
    let numbers: Value = serde_json::from_str(NUMBERS).expect("the numbers are JSON");
    assert_eq!(text(&numbers), NUMBERS, "the suite itself rounds nothing");
    let shapes: Value = serde_json::from_str(SHAPES).expect("the shapes are JSON");
    json!({"numbers": numbers, "shapes": shapes, "long": "x".repeat(100_000), "long_odd": "\"\\🦀\u{0}".repeat(10_000)})
}

fn text(value: &Value) -> String {
    serde_json::to_string(value).expect("a value can be written")
}

/// Equal as values and as texts. A failure tells the place, not the hundreds of kilobytes.
fn assert_same(found: &Value, given: &Value, place: &str) {
    for (key, part) in given.as_object().into_iter().flatten() {
        assert!(found.get(key) == Some(part), "{place}: {key} came back as {:.300}", text(&found[key]));
    }
    assert!(found == given && text(found) == text(given), "{place} came back as {:.300}", text(found));
}

async fn started_with(scene: &Scene, input: Value) -> RunId {
    let start = scene.request(&acme(), Some("k"), input);
    let run = start.request.run;
    let answer = scene.admit(start).await;
    assert!(matches!(answer, interlock_model::admission::StartOutcome::Admitted { .. }), "{answer:?}");
    run
}

pub async fn values_come_back_byte_for_byte(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = started_with(&scene, odd()).await;
    let taken = scene.taken(&acme(), run).await;
    assert_same(&taken.start.input, &odd(), "a taken run's input");
    let step = StepRun { output: Some(odd()), item: Some(odd()), ..StepRun::default() };
    let key = StepKey::item(&name("build"), 0);
    let mut turn = running(&taken);
    turn.head.output = Some(odd());
    turn.steps = vec![(key.clone(), step.clone())];
    turn.events = vec![Event::new(taken.now, EventKind::StepEventEmitted).with_data(odd())];
    turn.approvals_opened =
        vec![interlock_model::approval::Approval { input: odd(), ..approval(run, taken.now) }];
    let _ = scene.commit(turn).await.unwrap();
    drop(scene);
    subject.reopen().await;
    let store = subject.store();
    let found = store.call(ReadRun { tenant: acme(), run }).await.unwrap().expect("the run is there");
    assert_same(&found.start.input, &odd(), "a run's input");
    assert_same(found.head.output.as_ref().expect("it has an output"), &odd(), "a run's output");
    assert_same(found.steps[&key].output.as_ref().expect("it has an output"), &odd(), "a step's output");
    assert!(found.steps[&key] == step, "a step comes back whole");
    let page = PageRequest { limit: 10, after: None };
    let runs = store
        .call(ListRuns { tenant: acme(), filter: RunFilter::default(), page: page.clone() })
        .await
        .unwrap()
        .items;
    assert_same(&runs[0].start.input, &odd(), "a listed run's input");
    let asked = store.call(ListApprovals { tenant: acme(), page: page.clone() }).await.unwrap().items;
    assert_same(&asked[0].input, &odd(), "an approval's input");
    let timeline = store.call(ReadTimeline { tenant: acme(), run, after: 0, limit: 10 }).await.unwrap();
    let data = timeline.iter().find_map(|it| it.event.data.as_ref()).expect("an event has data");
    assert_same(data, &odd(), "an event's data");
}

pub async fn a_jobs_values_come_back_byte_for_byte(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    // Each part also by itself: an array or a text at the top is a value, too.
    let mut given = vec![json!({}), json!([]), json!(null), json!(""), json!([[]]), odd()];
    given.extend(odd().as_object().into_iter().flatten().map(|(_, part)| part.clone()));
    let run = scene.started(&acme()).await;
    let mut turn = running(&scene.taken(&acme(), run).await);
    turn.dispatched = given
        .iter()
        .zip(1..)
        .map(|(input, attempt)| NewJob { input: input.clone(), ..new_job(run, attempt) })
        .collect();
    let _ = scene.commit(turn).await.unwrap();
    let mut claimed = scene.claim(&acme(), 100).await;
    claimed.sort_by_key(|it| it.job.id.attempt);
    assert_eq!(claimed.len(), given.len());
    for (it, input) in claimed.iter().zip(&given) {
        assert_same(&it.job.input, input, "a claimed job's input");
        let outcome = JobOutcome::completed(input.clone());
        let _ = scene
            .store
            .call(RecordResult {
                tenant: acme(),
                job: it.job.id.clone(),
                fence: it.lease.fence,
                outcome,
                edge: None,
            })
            .await
            .unwrap();
        let shown = scene
            .store
            .call(ReadJob { tenant: acme(), job: it.job.id.clone() })
            .await
            .unwrap()
            .expect("the job is there");
        assert_same(&shown.job.new.input, input, "a job's input after its end");
    }
    let inbox = scene.taken(&acme(), run).await.inbox;
    assert_eq!(inbox.len(), given.len());
    for (event, output) in inbox.iter().zip(&given) {
        let InboxEvent::Job { outcome: JobOutcome::Completed { output: posted, .. }, .. } = event else {
            panic!("a job's result is in the inbox, not {event:?}")
        };
        assert_same(posted, output, "a job's output");
    }
}

pub async fn a_documents_values_come_back_byte_for_byte(subject: &mut dyn Subject) {
    let mut given: WorkflowDocument = document();
    given.description = Some("\u{0}\"\\🦀".to_owned());
    given.timeout_sec = Some(0.1);
    given.input_schema = Some(odd());
    let step = given.steps.get_mut(&name("build")).expect("the document has the step");
    step.input = odd().as_object().cloned();
    step.output_schema = Some(json!({}));
    step.timeout_sec = Some(1e300);
    let version = Scene::with_cap(subject, 1)
        .await
        .store
        .call(SaveWorkflow { tenant: acme(), id: deploy(), document: given.clone() })
        .await
        .unwrap();
    subject.reopen().await;
    let store = subject.store();
    let listed = store
        .call(ListWorkflows { tenant: acme(), page: PageRequest { limit: 1, after: None } })
        .await
        .unwrap()
        .items;
    let found = [
        store.call(ReadWorkflow { tenant: acme(), id: deploy() }).await.unwrap(),
        store.call(ReadWorkflowVersion { tenant: acme(), id: deploy(), version }).await.unwrap(),
        listed.into_iter().next(),
    ];
    let given = serde_json::to_value(&given).unwrap();
    for WorkflowVersion { document, .. } in found.into_iter().map(|it| it.expect("the workflow is there")) {
        assert_same(&serde_json::to_value(&document).unwrap(), &given, "a document");
    }
}

pub async fn odd_texts_come_back_byte_for_byte(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let odd = format!("\u{0}\"\\\n🦀 {{}} [] %s \u{2028}{}", "long ".repeat(20_000));
    let (run, claimed) = scene.working(&acme()).await;
    let failed = JobOutcome::failed(odd.clone(), false);
    let job = claimed.job.id;
    let _ = scene
        .store
        .call(RecordResult {
            edge: None,
            tenant: acme(),
            job: job.clone(),
            fence: claimed.lease.fence,
            outcome: failed.clone(),
        })
        .await
        .unwrap();
    let taken = scene.taken(&acme(), run).await;
    assert!(outcomes(&taken) == [(job.clone(), failed)]);
    let mut turn = idle(&taken);
    turn.approvals_opened = vec![approval(run, taken.now)];
    turn.events =
        vec![Event::new(taken.now, EventKind::StepFailed).of_job(&job).saying(&*odd).with_status(&*odd)];
    let buried = DeadLetter { reason: odd.clone(), last_error: Some(odd.clone()), ..letter(&job) };
    turn.buried = vec![buried.clone()];
    let (asked, event) = (turn.approvals_opened[0].job.clone(), turn.events[0].clone());
    let _ = scene.commit(turn).await.unwrap();
    assert!(scene.store.call(ReadDeadLetter { tenant: acme(), job: job.clone() }).await == Ok(Some(buried)));
    let timeline =
        scene.store.call(ReadTimeline { tenant: acme(), run, after: 0, limit: 100 }).await.unwrap();
    assert!(timeline.last().is_some_and(|last| last.event == event));
    let decision = Decision { verdict: Verdict::Approved, by: odd.clone(), reason: Some(odd.clone()) };
    let _ = scene
        .store
        .call(ResolveApproval { tenant: acme(), job: asked.clone(), decision: decision.clone() })
        .await
        .unwrap();
    let _ = scene.store.call(RequestCancel { tenant: acme(), run, by: odd.clone() }).await.unwrap();
    let expected = [InboxEvent::Approval { job: asked, decision }, InboxEvent::Cancel { by: odd }];
    assert!(scene.taken(&acme(), run).await.inbox == expected);
}
