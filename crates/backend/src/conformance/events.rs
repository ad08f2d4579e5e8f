//! Events: posted once for each id, to a live run that has room for them.

use interlock_model::event::{
    AwaitedEvent, EventWaiter, KEYED_KEPT, SPREAD_AT_ONCE_MAX, SentEvent, UNTAKEN_MAX,
};
use interlock_model::run::{Ending, InboxEvent};
use interlock_model::step::StepRun;
use interlock_model::{RunId, StepKey};
use serde_json::{Value, json};

use super::Subject;
use super::scene::{Scene, acme, ending, globex, idle, name, running};
use crate::StoreError;
use crate::error::Quota;
use crate::events::{EventOutcome, EventsSpread, KeyedEventOutcome};
use crate::runs::AcquiredRun;
use crate::verbs::{DeleteRun, FindDue, SendEvent, SendKeyedEvent, SpreadEvents};

fn event(id: &str, data: Value) -> SentEvent {
    SentEvent { id: name(id), name: name("paid"), key: None, data, by: "a test".to_owned() }
}

impl Scene {
    async fn send(&self, run: RunId, id: &str, data: Value) -> Result<EventOutcome, StoreError> {
        self.store.call(SendEvent { tenant: acme(), run, event: event(id, data) }).await
    }
}

pub async fn an_event_is_posted_once_for_each_id(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let foreign = SendEvent { tenant: globex(), run, event: event("1", json!({})) };
    assert!(matches!(scene.store.call(foreign).await, Err(StoreError::NotFound { .. })));
    let data = json!({"amount": 1.50, "list": []});
    assert_eq!(scene.send(run, "a/{1}:%", data.clone()).await, Ok(EventOutcome::Sent));
    assert_eq!(scene.send(run, "2", json!(null)).await, Ok(EventOutcome::Sent));
    assert_eq!(scene.send(run, "a/{1}:%", data.clone()).await, Ok(EventOutcome::AlreadySent));
    assert_eq!(scene.send(run, "a/{1}:%", json!({"amount": 2})).await, Ok(EventOutcome::IdReused));
    let posted = |id, data| InboxEvent::Event(Box::new(event(id, data)));
    let expected = [posted("a/{1}:%", data.clone()), posted("2", json!(null))];
    let taken = scene.taken(&acme(), run).await;
    assert_eq!(taken.inbox, expected);
    let _ = scene.commit(running(&taken)).await.unwrap();
    assert_eq!(scene.send(run, "a/{1}:%", data).await, Ok(EventOutcome::AlreadySent), "also after its turn");
}

pub async fn an_ended_run_gets_no_event_and_knows_those_that_it_got(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    assert_eq!(scene.send(run, "1", json!(1)).await, Ok(EventOutcome::Sent));
    let _ = scene.commit(ending(&scene.taken(&acme(), run).await, Ending::Succeeded)).await.unwrap();
    assert_eq!(scene.send(run, "1", json!(1)).await, Ok(EventOutcome::AlreadySent));
    assert_eq!(scene.send(run, "2", json!(2)).await, Ok(EventOutcome::RunEnded));
    scene.store.call(DeleteRun { tenant: acme(), run }).await.unwrap();
    assert!(matches!(scene.send(run, "1", json!(1)).await, Err(StoreError::NotFound { .. })));
}

pub async fn a_run_keeps_a_bounded_number_of_events_that_no_step_has_taken(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    let full = Err(StoreError::QuotaReached { quota: Quota::UntakenEvents, most: UNTAKEN_MAX.count });
    for number in 0..UNTAKEN_MAX.count {
        assert_eq!(scene.send(run, &number.to_string(), json!(number)).await, Ok(EventOutcome::Sent));
    }
    assert_eq!(scene.send(run, "more", json!(1)).await, full);
    assert_eq!(scene.send(run, "7", json!(7)).await, Ok(EventOutcome::AlreadySent), "a repeat needs no room");
    let taken = scene.taken(&acme(), run).await;
    let mut turn = running(&taken);
    turn.head.used_events = event("0", json!(0)).tally();
    let _ = scene.commit(turn).await.unwrap();
    assert_eq!(scene.send(run, "more", json!(1)).await, Ok(EventOutcome::Sent), "one was taken");
    assert_eq!(scene.send(run, "one-more", json!(1)).await, full);
    let taken = scene.taken(&acme(), run).await;
    let mut turn = idle(&taken);
    turn.head.used_events.count = UNTAKEN_MAX.count;
    let _ = scene.commit(turn).await.unwrap();
    assert_eq!(
        scene.send(run, "large", json!("x".repeat(1 << 20))).await,
        full,
        "its bytes are counted, too"
    );
}

pub async fn events_survive_a_reopening(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1).await;
    let run = scene.started(&acme()).await;
    assert_eq!(scene.send(run, "1", json!(1)).await, Ok(EventOutcome::Sent));
    drop(scene);
    subject.reopen().await;
    let scene = Scene::of(subject);
    assert_eq!(scene.send(run, "1", json!(1)).await, Ok(EventOutcome::AlreadySent));
    assert_eq!(scene.taken(&acme(), run).await.inbox.len(), 1);
}

fn keyed(id: &str, key: &str, data: Value) -> SentEvent {
    SentEvent { key: Some(name(key)), ..event(id, data) }
}

fn waiter(step: &str, key: &str) -> EventWaiter {
    EventWaiter { step: StepKey::whole(&name(step)), name: name("paid"), key: name(key) }
}

impl Scene {
    async fn send_to_key(&self, id: &str, key: &str) -> Result<KeyedEventOutcome, StoreError> {
        self.store
            .call(SendKeyedEvent { tenant: acme(), event: keyed(id, key, json!(id)), kept_for: KEYED_KEPT })
            .await
    }

    /// A run whose step waits for the key.
    async fn waiting(&self, key: &str) -> RunId {
        let run = self.started(&acme()).await;
        let mut turn = running(&self.taken(&acme(), run).await);
        let awaits = AwaitedEvent { name: name("paid"), key: Some(name(key)) };
        turn.waits.begun = vec![waiter("wait", key)];
        turn.steps = vec![(waiter("wait", key).step, StepRun { awaits: Some(awaits), ..StepRun::default() })];
        // It is ready again, so that rules can go on with it.
        turn.continues = true;
        let _ = self.commit(turn).await.unwrap();
        run
    }

    /// The ids of the events in the inbox of the run.
    async fn events_of(&self, run: RunId) -> (AcquiredRun, Vec<String>) {
        let taken = self.taken(&acme(), run).await;
        let ids = taken.inbox.iter().filter_map(|event| {
            let InboxEvent::Event(event) = event else { return None };
            Some(event.id.to_string())
        });
        let ids = ids.collect();
        (taken, ids)
    }

    async fn spread(&self) -> EventsSpread {
        self.store.call(SpreadEvents { tenant: acme(), limit: 10 }).await.unwrap()
    }
}

const ONE: KeyedEventOutcome = KeyedEventOutcome::Delivered { runs: 1, has_more: false };

pub async fn an_event_reaches_every_run_that_waits_for_its_key(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    let (first, second) = (scene.waiting("a/b").await, scene.waiting("a/b").await);
    let other = scene.waiting("a").await;
    let both = Ok(KeyedEventOutcome::Delivered { runs: 2, has_more: false });
    assert_eq!(scene.send_to_key("1", "a/b").await, both);
    assert_eq!(scene.send_to_key("1", "a/b").await, Ok(KeyedEventOutcome::AlreadySent));
    assert_eq!(scene.send_to_key("1", "a").await, Ok(KeyedEventOutcome::IdReused));
    assert_eq!(scene.send_to_key("2", "a").await, Ok(ONE));
    for (run, expected) in [(first, "1"), (second, "1"), (other, "2")] {
        assert_eq!(scene.events_of(run).await.1, [expected]);
    }
}

pub async fn an_event_for_which_no_run_waits_is_kept_for_the_next(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    assert_eq!(scene.send_to_key("1", "k").await, Ok(KeyedEventOutcome::Kept));
    assert_eq!(scene.send_to_key("2", "k").await, Ok(KeyedEventOutcome::Kept));
    let run = scene.started(&acme()).await;
    let mut turn = running(&scene.taken(&acme(), run).await);
    turn.waits.begun = vec![waiter("wait", "k"), waiter("wait-2", "k")];
    assert!(scene.commit(turn).await.unwrap().has_more, "the commit that begins the wait posts them");
    let (taken, ids) = scene.events_of(run).await;
    assert_eq!(ids, ["1", "2"]);
    let mut turn = idle(&taken);
    turn.waits.ended = vec![waiter("wait", "k"), waiter("wait-2", "k")];
    let _ = scene.commit(turn).await.unwrap();
    assert_eq!(scene.send_to_key("1", "k").await, Ok(KeyedEventOutcome::AlreadySent));
    assert_eq!(scene.send_to_key("3", "k").await, Ok(KeyedEventOutcome::Kept), "the run waits no more");
    let later = scene.waiting("k").await;
    assert_eq!(scene.events_of(later).await.1, ["3"]);
}

pub async fn a_run_that_ends_or_is_deleted_waits_no_more(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    let (ended, deleted) = (scene.waiting("k").await, scene.waiting("k").await);
    scene.store.call(DeleteRun { tenant: acme(), run: deleted }).await.unwrap();
    let mut turn = ending(&scene.taken(&acme(), ended).await, Ending::Failed);
    turn.waits.ended = vec![waiter("wait", "k")];
    let _ = scene.commit(turn).await.unwrap();
    assert_eq!(scene.send_to_key("1", "k").await, Ok(KeyedEventOutcome::Kept));
}

pub async fn an_event_for_many_runs_is_spread_in_steps_and_reaches_each_once(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 1_000).await;
    let mut runs = Vec::new();
    for _ in 0..SPREAD_AT_ONCE_MAX + 5 {
        runs.push(scene.waiting("k").await);
    }
    let some = KeyedEventOutcome::Delivered { runs: SPREAD_AT_ONCE_MAX, has_more: true };
    assert_eq!(scene.send_to_key("1", "k").await, Ok(some));
    let due = scene.store.call(FindDue { limit: 10 }).await.unwrap();
    assert_eq!(due.events, [acme()], "the reconcilers go on with it");
    assert_eq!(scene.spread().await.runs, 5);
    assert_eq!(scene.spread().await, EventsSpread::default());
    for run in runs {
        assert_eq!(scene.events_of(run).await.1, ["1"]);
    }
}

pub async fn a_kept_event_is_forgotten_after_a_day_and_so_is_its_id(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 5).await;
    assert_eq!(scene.send_to_key("1", "k").await, Ok(KeyedEventOutcome::Kept));
    subject.elapse(KEYED_KEPT).await;
    assert_eq!(scene.spread().await, EventsSpread { forgotten: 1, ..EventsSpread::default() });
    let run = scene.waiting("k").await;
    assert_eq!(scene.send_to_key("1", "k").await, Ok(ONE), "it is another event");
    assert_eq!(scene.events_of(run).await.1, ["1"]);
}
