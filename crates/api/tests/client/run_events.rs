//! The reader of a run's events against a gateway that answers by a script.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::stand_in::{Answer, Request, StandIn};
use interlock_api::events::RunEvents;
use interlock_api::{Code, Problem};

const RUN: &str = "0192f0c1-0000-7000-8000-000000000001";

const FIRST: &str = concat!(
    ": hello\n\n",
    "id: 1\ndata: {\"seq\":1,\"time\":\"2026-11-15T00:00:00.000Z\",\"type\":\"run_status\",\"step_id\":null,",
    "\"job_id\":null,\"status\":\"running\",\"message\":null,\"data\":null}\n\n",
    "id: 2\ndata: {\"seq\":2,\"time\":\"2026-11-15T00:00:00.000Z\",\"type\":\"step_dispatched\",\"step_id\":\"a\"}\n\n",
    "id: 3\ndata: {\"seq\":3,\"ti",
);

/// Event 2 comes again: a replica may know less well where the reader was.
const SECOND: &str = concat!(
    "id: 2\ndata: {\"seq\":2,\"time\":\"2026-11-15T00:00:00.000Z\",\"type\":\"step_dispatched\",\"step_id\":\"a\"}\n\n",
    "id: 3\ndata: {\"seq\":3,\"time\":\"2026-11-15T00:00:01.000Z\",\"type\":\"run_status\",\"status\":\"failed\"}\n\n",
);

#[tokio::test]
async fn a_cut_stream_goes_on_after_the_last_event_and_none_is_told_twice() {
    let connections = AtomicUsize::new(0);
    let script = move |_: &Request| match connections.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::Events(FIRST),
        1 => Answer::HangUp,
        _ => Answer::Events(SECOND),
    };
    let gateway = StandIn::start(script).await;
    let mut events = RunEvents::new(gateway.client.clone(), RUN, 0);
    let mut told = Vec::new();
    while let Some(item) = events.next().await.unwrap() {
        told.push((item.seq, item.r#type));
    }
    let expected = [(1, "run_status"), (2, "step_dispatched"), (3, "run_status")];
    assert_eq!(told, expected.map(|(seq, kind)| (seq, kind.to_owned())));
    let resumed: Vec<_> = gateway.asked("/events").into_iter().map(|request| request.last_event_id).collect();
    assert_eq!(resumed, [None, Some("2".to_owned()), Some("2".to_owned())]);
}

#[tokio::test]
async fn a_run_that_is_not_there_is_a_refusal_and_not_a_wait() {
    let script = |_: &Request| {
        let problem = Problem::new(Code::NotFound, "there is no such run");
        Answer::Json(404, serde_json::to_value(problem).unwrap())
    };
    let gateway = StandIn::start(script).await;
    let error = RunEvents::new(gateway.client.clone(), RUN, 0).next().await.unwrap_err();
    assert_eq!(error.code(), Some(Code::NotFound));
}
