//! Timelines.

use axum::Json;
use axum::extract::State;
use interlock_api::history::TimelineItem;
use interlock_api::{Page, PageQuery};
use interlock_backend::verbs::ReadTimeline;
use interlock_model::RunId;

use super::{Answer, events};
use crate::auth::{Caller, Permission};
use crate::convert;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::path::Named;
use crate::query::Parameters;
use crate::router::Routes;
use crate::state::App;

pub(crate) fn register(routes: Routes) -> Routes {
    routes
        .get("/api/v1/workflow-runs/{id}/timeline", timeline)
        .get("/api/v1/workflow-runs/{id}/events", events::stream)
}

/// What happened to the run, oldest first. A cursor is the number of an event.
#[utoipa::path(get, path = "/api/v1/workflow-runs/{id}/timeline", tag = "history",
    params(("id" = String, Path), PageQuery), responses((status = 200, body = Page<TimelineItem>), Refusals))]
pub(crate) async fn timeline(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<RunId>,
    parameters: Parameters,
) -> Answer<Page<TimelineItem>> {
    caller.may(Permission::ReadRuns)?;
    let limit = parameters.limit()?;
    let after = parameters.named("cursor", |text| {
        text.parse::<u64>().map_err(|_| "it is not one that a timeline has given out".to_owned())
    })?;
    let mut found = app
        .store
        .call(ReadTimeline {
            tenant: caller.tenant.clone(),
            run: id,
            after: after.unwrap_or(0),
            limit: limit + 1,
        })
        .await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|last| last.sequence.to_string());
    Ok(Json(Page::new(found.into_iter().map(convert::history::item).collect(), next)))
}

/// The number of the last event that a client has seen.
pub(super) fn last_seen(text: &str) -> Result<u64, Refusal> {
    text.trim().parse().map_err(|_| Refusal::invalid("Last-Event-ID is not the number of an event"))
}
