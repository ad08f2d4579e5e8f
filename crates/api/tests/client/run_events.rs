//! The reader of a run's events against a scripted gateway.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::scripted_gateway::{Answer, Request, ScriptedGateway};
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

/// Event 2 comes again: a replica may resume too early.
const SECOND: &str = concat!(
    "id: 2\ndata: {\"seq\":2,\"time\":\"2026-11-15T00:00:00.000Z\",\"type\":\"step_dispatched\",\"step_id\":\"a\"}\n\n",
    "id: 3\ndata: {\"seq\":3,\"time\":\"2026-11-15T00:00:01.000Z\",\"type\":\"run_status\",\"status\":\"failed\"}\n\n",
);

#[tokio::test]
async fn a_cut_stream_resumes_after_the_last_event_and_repeats_none() {
    let connections = AtomicUsize::new(0);
    let script = move |_: &Request| match connections.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::Events(FIRST),
        1 => Answer::HangUp,
        _ => Answer::Events(SECOND),
    };
    let gateway = ScriptedGateway::start(script).await;
    let mut events = RunEvents::new(gateway.client.clone(), RUN);
    let mut events_read = Vec::new();
    while let Some(item) = events.next().await.unwrap() {
        events_read.push((item.seq, item.r#type));
    }
    let expected = [(1, "run_status"), (2, "step_dispatched"), (3, "run_status")];
    assert_eq!(events_read, expected.map(|(seq, kind)| (seq, kind.to_owned())));
    let resumed: Vec<_> = gateway.asked("/events").into_iter().map(|request| request.last_event_id).collect();
    assert_eq!(resumed, [None, Some("2".to_owned()), Some("2".to_owned())]);
}

#[tokio::test]
async fn a_missing_run_is_an_error_and_not_a_wait() {
    let script = |_: &Request| {
        let problem = Problem::new(Code::NotFound, "run not found");
        Answer::Json(404, serde_json::to_value(problem).unwrap())
    };
    let gateway = ScriptedGateway::start(script).await;
    let error = RunEvents::new(gateway.client.clone(), RUN).next().await.unwrap_err();
    assert_eq!(error.code(), Some(Code::NotFound));
}
