//! Events: sent to runs.

use interlock_api::Code;
use interlock_api::sent_events::{
    SendEventRequest, SendKeyedEventRequest, SentEventView, SentKeyedEventView,
};
use interlock_backend::events::{EventOutcome, KeyedEventOutcome};
use interlock_control::events::SendEventError;
use interlock_model::event::{EVENT_BYTES_MAX, SentEvent};
use interlock_model::{EventId, RunId};
use serde_json::Value;

use super::{Answer, Caller, Json, Named, Payload, Permission, Refusal, endpoints};

endpoints!("events": send, send_to_key);

/// Sends an event to a live run. A step that waits for it takes it now; otherwise it is kept for the first that will wait.
#[utoipa::path(post, path = "/api/v1/workflow-runs/{id}/events", request_body = SendEventRequest, responses(
    (status = 200, body = SentEventView, description = "Sent, now or before with the same id"),
    (status = 409, description = "The run has ended, its workflow waits for no such event, or another event has this id \
        (`conflict`); or the run keeps as many as it may (`quota_reached`)")))]
async fn send(
    caller: Caller,
    Named(run): Named<RunId>,
    Payload(request): Payload<SendEventRequest>,
) -> Answer<SentEventView> {
    caller.may_for_run(Permission::SendEvents, run).await?;
    let SendEventRequest { name, data, event_id } = request;
    check_data(&data)?;
    let Caller { app, tenant, name: by, .. } = caller;
    let is_named = event_id.is_some();
    let id = event_id.unwrap_or_else(|| app.stages.events.new_id());
    let event = SentEvent { id: id.clone(), name: name.clone(), key: None, data, by };
    let events = app.stages.events.clone();
    let sent = app.to_the_end(async move { events.send(&tenant, run, event).await }).await;
    let sent = sent.map_err(|refusal| refusal.of_event(is_named))?;
    match sent {
        EventOutcome::Sent | EventOutcome::AlreadySent => {
            Ok(Json(SentEventView { event_id: id, replayed: sent == EventOutcome::AlreadySent }))
        }
        EventOutcome::IdReused => Err(id_reused(&id)),
        EventOutcome::RunEnded => {
            let sentence = format!("run {run} has ended: it takes no event. Nothing was changed");
            Err(Refusal::new(Code::Conflict, sentence))
        }
    }
}

/// Sends an event to every run of the tenant that waits for its key. If none does, it is kept for a day, for the first that
/// will.
#[utoipa::path(post, path = "/api/v1/events", request_body = SendKeyedEventRequest, responses(
    (status = 200, body = SentKeyedEventView, description = "Sent, now or before with the same id"),
    (status = 409, description = "Another event has this id (`conflict`), or too many are kept (`quota_reached`)")))]
async fn send_to_key(
    caller: Caller,
    Payload(request): Payload<SendKeyedEventRequest>,
) -> Answer<SentKeyedEventView> {
    caller.may(Permission::SendEvents)?;
    let SendKeyedEventRequest { name, key, data, event_id } = request;
    check_data(&data)?;
    let Caller { app, tenant, name: by, .. } = caller;
    let is_named = event_id.is_some();
    let id = event_id.unwrap_or_else(|| app.stages.events.new_id());
    let event = SentEvent { id: id.clone(), name, key: Some(key), data, by };
    let events = app.stages.events.clone();
    let sent = app.to_the_end(async move { events.send_to_key(&tenant, event).await }).await;
    let view = SentKeyedEventView { event_id: id, replayed: false, runs: 0, has_more: false, kept: false };
    match sent.map_err(|refusal| refusal.of_event(is_named))? {
        KeyedEventOutcome::Delivered { runs, has_more } => {
            Ok(Json(SentKeyedEventView { runs, has_more, ..view }))
        }
        KeyedEventOutcome::Kept => Ok(Json(SentKeyedEventView { kept: true, ..view })),
        KeyedEventOutcome::AlreadySent => Ok(Json(SentKeyedEventView { replayed: true, ..view })),
        KeyedEventOutcome::IdReused => Err(id_reused(&view.event_id)),
    }
}

fn check_data(data: &Value) -> Result<(), Refusal> {
    let bytes = data.to_string().len();
    if bytes <= EVENT_BYTES_MAX {
        return Ok(());
    }
    Err(Refusal::invalid(format!("data has {bytes} bytes: an event has at most {EVENT_BYTES_MAX}")))
}

fn id_reused(id: &EventId) -> Refusal {
    let sentence = format!("another event was sent with event_id {id}: send this one with an id of its own");
    Refusal::new(Code::Conflict, sentence)
}

impl Refusal {
    /// Whether a retry is safe depends on its id.
    fn of_event(self, is_named: bool) -> Self {
        if self.code() != Code::OutcomeUnknown {
            return self;
        }
        self.with(|problem| problem.retry_with_same_key = Some(is_named))
    }
}

impl From<SendEventError> for Refusal {
    fn from(error: SendEventError) -> Self {
        match error {
            SendEventError::NotAwaited { .. } => Self::new(Code::Conflict, error.to_string()),
            SendEventError::Store(error) => error.into(),
        }
    }
}
