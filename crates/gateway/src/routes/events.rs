//! Live timelines: server-sent events that a client can resume at any replica.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive, KeepAliveStream};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::HeaderMap;
use interlock_api::history::TimelineItem;
use interlock_backend::StoreError;
use interlock_backend::verbs::{ReadRun, ReadTimeline};
use interlock_control::wakeups::Signal;
use interlock_model::RunId;
use interlock_model::run::RunStatus;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use super::history::{item, number_of_event};
use super::{Caller, Named, Parameters, Permission, Refusal, endpoints};

/// Events that one read returns.
const BATCH_MAX: usize = 100;

endpoints!("history": stream);

/// What happens to the run, as it happens. Each event's `id` is its number; the stream ends when the run has.
#[utoipa::path(get, path = "/api/v1/workflow-runs/{id}/events", params(
    ("Last-Event-ID" = Option<u64>, Header, maximum = 999_999_999_999_999i64, description = "Continue after this event"),
    ("last_event_id" = Option<u64>, Query, maximum = 999_999_999_999_999i64,
        description = "The same, for clients that cannot set headers; the header has precedence")),
    responses((status = 200, body = String, content_type = "text/event-stream",
        description = "Server-sent events. The data of each is one item of the timeline.")))]
async fn stream(
    caller: Caller,
    Named(run): Named<RunId>,
    parameters: Parameters,
    headers: HeaderMap,
) -> Result<Sse<KeepAliveStream<BoxStream<'static, Result<Event, Infallible>>>>, Refusal> {
    caller.may_for_run(Permission::ReadRuns, run).await?;
    let header = headers.get("last-event-id").map(|value| value.to_str().unwrap_or_default());
    let header = header.map(last_seen).transpose()?;
    // Read even if the header decides: what is wrong is refused, not ignored.
    let parameter = parameters.text("last_event_id")?.map(last_seen).transpose()?;
    let after = header.or(parameter).unwrap_or(0);
    let app = &caller.app;
    let place = app.streams.clone().try_acquire_owned();
    let place = place.map_err(|_| Refusal::too_many_connections())?;
    let keep_alive = KeepAlive::new().interval(app.settings.stream_keep_alive).text("still here");
    let changed = app.stages.process.wakeups().waiter(Signal::RunChanged(run));
    let mut follower =
        Follower { caller, run, after, waiting: VecDeque::new(), has_ended: false, changed, _place: place };
    // The first read is before the answer: a missing run is 404, not an empty stream.
    follower.read().await?;
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok(event), follower))
    });
    Ok(Sse::new(events.boxed()).keep_alive(keep_alive))
}

/// The number of the last event that a client has seen.
fn last_seen(text: &str) -> Result<u64, Refusal> {
    number_of_event(text).ok_or_else(|| Refusal::invalid("Last-Event-ID is not the number of an event"))
}

/// One client that follows one run.
struct Follower {
    caller: Caller,
    run: RunId,
    /// The number of the last event that was sent or waits to be.
    after: u64,
    waiting: VecDeque<TimelineItem>,
    /// The run's last event was read: no further one can follow.
    has_ended: bool,
    changed: Arc<Notify>,
    _place: OwnedSemaphorePermit,
}

impl Follower {
    /// The next event. None: the run has ended or was deleted, or the gateway closes.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(item) = self.waiting.pop_front() {
                return Some(event(&item));
            }
            let app = self.caller.app.clone();
            let changed = self.changed.clone();
            let mut heard = std::pin::pin!(changed.notified());
            // From here on a change is noticed, so that none is lost between the read and the wait.
            heard.as_mut().enable();
            match self.read().await {
                Ok(()) if !self.waiting.is_empty() => continue,
                Ok(()) if self.has_ended => return None,
                Ok(()) => {}
                Err(StoreError::NotFound { .. }) => return None,
                // The next poll reads again; the stream stays open meanwhile.
                Err(error) => tracing::debug!(%error, "cannot read a timeline; trying again"),
            }
            let wait = tokio::time::timeout(app.settings.stream_poll, heard);
            app.closing.run_until_cancelled(wait).await?.ok();
        }
    }

    /// Reads new events.
    async fn read(&mut self) -> Result<(), StoreError> {
        let Caller { app, tenant, .. } = &self.caller;
        let (tenant, run) = (tenant.clone(), self.run);
        let read = ReadTimeline { tenant: tenant.clone(), run, after: self.after, limit: BATCH_MAX };
        let mut found = app.store.call(read.clone()).await?;
        if found.is_empty() && !self.has_ended {
            // A client that resumes after the last event gets no further one.
            let run = app.store.call(ReadRun { tenant, run }).await?;
            self.has_ended = run.is_none_or(|run| run.head.status.is_final());
            found = app.store.call(read).await?;
        }
        for recorded in found {
            self.after = recorded.sequence;
            let item = item(recorded);
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
