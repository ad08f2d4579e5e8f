//! Timelines, live: server-sent events that can be taken up again anywhere.

use interlock_backend::verbs::{ReadRun, ReadTimeline};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive, KeepAliveStream};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::HeaderMap;
use interlock_api::history::TimelineItem;
use interlock_backend::StoreError;
use interlock_control::wakeups::Signal;
use interlock_model::RunId;
use interlock_model::run::RunStatus;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use super::history::last_seen;
use crate::auth::{Caller, Permission};
use crate::convert;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::path::Named;
use crate::query::Parameters;
use crate::state::App;

/// Events that one look takes.
const BATCH_MAX: usize = 100;

/// What happens to the run, as it happens. Each event's `id` is its number; the stream ends when the run has.
#[utoipa::path(get, path = "/api/v1/workflow-runs/{id}/events", tag = "history", params(("id" = String, Path),
    ("Last-Event-ID" = Option<u64>, Header, description = "Go on after this event"),
    ("last_event_id" = Option<u64>, Query, description = "The same, for clients that cannot set headers")),
    responses((status = 200, body = TimelineItem, content_type = "text/event-stream"), Refusals))]
pub(crate) async fn stream(
    State(app): State<App>,
    caller: Caller,
    Named(run): Named<RunId>,
    parameters: Parameters,
    headers: HeaderMap,
) -> Result<Sse<KeepAliveStream<BoxStream<'static, Result<Event, Infallible>>>>, Refusal> {
    caller.may(Permission::ReadRuns)?;
    let after = match headers.get("last-event-id").map(|value| value.to_str().unwrap_or_default()) {
        Some(text) => last_seen(text)?,
        None => parameters.text("last_event_id")?.map(last_seen).transpose()?.unwrap_or(0),
    };
    let place = app.streams.clone().try_acquire_owned();
    let place = place.map_err(|_| Refusal::unavailable("too many event streams are open here"))?;
    let keep_alive = KeepAlive::new().interval(app.settings.stream_keep_alive).text("still here");
    let changed = app.process.wakeups().waiter(Signal::RunChanged(run));
    let mut follower = Follower {
        caller,
        run,
        after,
        waiting: VecDeque::new(),
        has_ended: false,
        changed,
        app,
        _place: place,
    };
    // The first look happens before the answer: a run that is not there is 404, not an empty stream.
    follower.look().await?;
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok(event), follower))
    });
    Ok(Sse::new(events.boxed()).keep_alive(keep_alive))
}

/// One client that follows one run.
struct Follower {
    app: App,
    caller: Caller,
    run: RunId,
    /// The number of the last event that was sent or waits to be.
    after: u64,
    waiting: VecDeque<TimelineItem>,
    /// The run's last event was seen: what is empty now stays empty.
    has_ended: bool,
    changed: Arc<Notify>,
    _place: OwnedSemaphorePermit,
}

impl Follower {
    /// The next event. None: the run has ended or is gone, or the gateway closes.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(item) = self.waiting.pop_front() {
                return Some(event(&item));
            }
            let app = self.app.clone();
            let changed = self.changed.clone();
            let mut heard = std::pin::pin!(changed.notified());
            // From here on a change is heard, so that none falls between the look and the wait.
            heard.as_mut().enable();
            match self.look().await {
                Ok(()) if !self.waiting.is_empty() => continue,
                Ok(()) if self.has_ended => return None,
                Ok(()) => {}
                Err(StoreError::NotFound { .. }) => return None,
                // It is looked for again at the next poll; the stream stays open meanwhile.
                Err(error) => tracing::debug!(%error, "cannot read a timeline; trying again"),
            }
            let wait = tokio::time::timeout(app.settings.stream_poll, heard);
            app.closing.run_until_cancelled(wait).await?.ok();
        }
    }

    /// Takes what is new.
    async fn look(&mut self) -> Result<(), StoreError> {
        let store = &self.app.store;
        let tenant = &self.caller.tenant;
        let mut found = store
            .call(ReadTimeline { tenant: tenant.clone(), run: self.run, after: self.after, limit: BATCH_MAX })
            .await?;
        if found.is_empty() && !self.has_ended {
            // A client that comes back after the last event hears of no further one.
            let run = store.call(ReadRun { tenant: tenant.clone(), run: self.run }).await?;
            self.has_ended = run.is_none_or(|run| run.head.status.is_final());
            found = store
                .call(ReadTimeline {
                    tenant: tenant.clone(),
                    run: self.run,
                    after: self.after,
                    limit: BATCH_MAX,
                })
                .await?;
        }
        for recorded in found {
            self.after = recorded.sequence;
            let item = convert::history::item(recorded);
            self.has_ended |= item.run_status().is_some_and(RunStatus::is_final);
            self.waiting.push_back(item);
        }
        Ok(())
    }
}

fn event(item: &TimelineItem) -> Event {
    let data = serde_json::to_string(item).unwrap_or_default();
    Event::default().id(item.seq.to_string()).event(&item.r#type).data(data)
}
