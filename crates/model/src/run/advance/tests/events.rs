//! Steps that wait for events.

use super::*;
use crate::event::{EventWaiter, SentEvent};
use crate::step::{ErrorCode, StepStatus};

fn wait(event: &Value) -> Value {
    json!({"type": "wait_event", "event": event})
}

impl TestRun {
    fn sent(id: &str, name: &str, data: Value) -> SentEvent {
        let (id, name) = (id.parse().unwrap(), name.parse().unwrap());
        SentEvent { id, name, key: None, data, by: "ann".to_owned() }
    }

    fn send(&mut self, id: &str, name: &str, data: Value) {
        self.turn(&[InboxEvent::Event(Box::new(Self::sent(id, name, data)))]);
    }

    fn send_to_key(&mut self, key: &str, data: Value) {
        let event = SentEvent { key: Some(key.parse().unwrap()), ..Self::sent("k", "paid", data) };
        self.turn(&[InboxEvent::Event(Box::new(event))]);
    }
}

#[test]
fn a_step_takes_the_first_event_of_its_name_that_matches() {
    let event = json!({"name": "paid", "match": "event.data.amount >= input.least && event.by == 'ann'"});
    let mut test = TestRun::of(&json!({"wait": wait(&event)}), json!({"least": 10}));
    assert_eq!((test.status(), test.step("wait").status), (RunStatus::Running, StepStatus::Running));
    test.send("1", "shipped", json!({"amount": 50}));
    test.send("2", "paid", json!({"amount": 5}));
    test.send("3", "paid", json!({"amount": "nothing"}));
    assert_eq!(test.status(), RunStatus::Running);
    test.send("4", "paid", json!({"amount": 10.50}));
    assert_eq!(test.run.head.output, Some(json!({"wait": {"amount": 10.50}})));
    assert!(test.has_event(EventKind::StepEventReceived) && test.has_event(EventKind::StepConditionFailed));
    assert_eq!(test.step("wait").awaits, None);
}

#[test]
fn what_comes_before_the_step_waits_is_kept_for_it_in_order() {
    let waiting = |after: &str| json!({"type": "wait_event", "event": {"name": "go"}, "depends_on": [after]});
    let steps = json!({"first": worker(), "one": waiting("first"), "two": waiting("one")});
    let mut test = TestRun::of(&steps, json!({}));
    test.send("a", "go", json!(1));
    test.send("b", "go", json!(2));
    test.send("c", "go", json!(3));
    assert_eq!(test.run.head.used_events.count, 0);
    test.complete(json!({}));
    assert_eq!(test.status(), RunStatus::Succeeded);
    assert_eq!((&test.step("one").output, &test.step("two").output), (&Some(json!(1)), &Some(json!(2))));
    assert_eq!(test.run.head.used_events.count, 2, "the third is still kept");
}

#[test]
fn every_step_that_waits_takes_an_event_when_it_comes_and_none_takes_it_later() {
    let steps = json!({
        "left": wait(&json!({"name": "go"})),
        "right": wait(&json!({"name": "go"})),
        "later": {"type": "wait_event", "event": {"name": "go"}, "depends_on": ["left"]},
    });
    let mut test = TestRun::of(&steps, json!({}));
    test.send("a", "go", json!(1));
    assert_eq!(test.step("left").status, StepStatus::Succeeded);
    assert_eq!(test.step("right").status, StepStatus::Succeeded);
    assert_eq!(test.step("later").status, StepStatus::Running);
    test.send("b", "go", json!(2));
    assert_eq!(test.status(), RunStatus::Succeeded);
}

#[test]
fn a_wait_times_out_from_when_it_began_and_its_handler_can_recover() {
    let steps = json!({
        "first": worker(),
        "wait": {"type": "wait_event", "event": {"name": "go"}, "timeout_sec": 5, "depends_on": ["first"],
            "on_error": "late"},
        "late": {"type": "transform", "input": {"code": "${error.code}", "said": "${error.message}"}},
    });
    let mut test = TestRun::of(&steps, json!({}));
    test.pass(Duration::from_mins(1));
    test.complete(json!({}));
    test.pass(Duration::from_millis(4_999));
    assert_eq!(test.step("wait").status, StepStatus::Running);
    test.pass(Duration::from_millis(1));
    assert_eq!(test.step("wait").status, StepStatus::TimedOut);
    assert_eq!(test.status(), RunStatus::Succeeded);
    let said = "the step timed out: event `go` did not come";
    let output = test.step("late").output.as_ref().unwrap();
    assert_eq!((&output["code"], &output["said"]), (&json!("timed_out"), &json!(said)));
}

#[test]
fn the_end_of_the_run_ends_the_wait() {
    let mut test = TestRun::of(&json!({"wait": wait(&json!({"name": "go", "key": "k1"}))}), json!({}));
    test.turn(&[InboxEvent::Cancel { by: "ann".to_owned() }]);
    assert_eq!(test.step("wait").status, StepStatus::Cancelled);
    assert_eq!(test.effects.waits.begun, test.effects.waits.ended);
    test.send("late", "go", json!(1));
    assert_eq!(test.run.head.used_events.count, 0, "an ended run takes nothing");
}

#[test]
fn a_step_with_a_key_takes_what_is_sent_to_the_key_or_to_the_run() {
    let event = json!({"name": "paid", "key": "order-${input.order}"});
    let steps = json!({"wait": wait(&event), "other": wait(&json!({"name": "paid"}))});
    let mut test = TestRun::of(&steps, json!({"order": 17}));
    let step = StepKey::whole(&"wait".parse().unwrap());
    let waiter = EventWaiter { step, name: "paid".parse().unwrap(), key: "order-17".parse().unwrap() };
    assert_eq!(test.effects.waits.begun, std::slice::from_ref(&waiter));
    test.send_to_key("order-18", json!(1));
    assert_eq!(test.step("wait").status, StepStatus::Running);
    test.send_to_key("order-17", json!(2));
    assert_eq!(test.step("wait").output, Some(json!(2)));
    assert_eq!(test.step("other").status, StepStatus::Running, "it waits for what is sent to the run");
    assert_eq!(test.effects.waits.ended, [waiter]);
    let mut test = TestRun::of(&steps, json!({"order": 17}));
    test.send("a", "paid", json!(3));
    assert_eq!(test.status(), RunStatus::Succeeded);
}

#[test]
fn a_key_that_is_no_text_fails_the_step() {
    let mut test =
        TestRun::of(&json!({"wait": wait(&json!({"name": "paid", "key": "${input.order}"}))}), json!({}));
    let error = test.run.head.error.take().unwrap();
    assert_eq!(error.code, ErrorCode::ExpressionFailed);
    assert!(error.message.contains("event.key: null is not a key"), "{}", error.message);
}

#[test]
fn the_output_of_a_wait_is_checked() {
    let mut step = wait(&json!({"name": "go"}));
    step["output_schema"] = json!({"type": "object"});
    let mut test = TestRun::of(&json!({"wait": step}), json!({}));
    test.send("a", "go", json!(7));
    assert_eq!(test.run.head.error.as_ref().map(|error| error.code), Some(ErrorCode::OutputInvalid));
}
