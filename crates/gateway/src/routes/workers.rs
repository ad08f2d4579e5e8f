//! Workers, as they were last seen.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use interlock_api::workers::WorkerView;
use interlock_api::{Page, PageQuery};
use interlock_backend::workers::WorkerRecord;
use interlock_model::{Timestamp, WorkerId};

use super::Answer;
use crate::auth::{Caller, Permission};
use crate::convert;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::path::Named;
use crate::query::Parameters;
use crate::router::Routes;
use crate::state::App;

/// A worker that waits for jobs asks again at least once a minute.
const ONLINE: Duration = Duration::from_secs(90);

pub(crate) fn register(routes: Routes) -> Routes {
    routes.get("/api/v1/workers", list).get("/api/v1/workers/{worker}", get)
}

/// Workers that have ever asked for jobs.
#[utoipa::path(get, path = "/api/v1/workers", tag = "workers", params(PageQuery), responses(
    (status = 200, body = Page<WorkerView>), Refusals))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<Page<WorkerView>> {
    caller.may(Permission::ReadRest)?;
    let page = app.control.store().workers(&caller.tenant, &parameters.page()?).await?;
    let now = app.clock.now();
    Ok(Json(convert::page(page, |worker| view(worker, now))))
}

#[utoipa::path(get, path = "/api/v1/workers/{worker}", tag = "workers", params(("worker" = String, Path)),
    responses((status = 200, body = WorkerView), Refusals))]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<WorkerId>,
) -> Answer<WorkerView> {
    caller.may(Permission::ReadRest)?;
    let found = app.control.store().worker(&caller.tenant, &id).await?;
    let found = found.ok_or_else(|| Refusal::not_found("worker", id.as_str()))?;
    Ok(Json(view(found, app.clock.now())))
}

fn view(worker: WorkerRecord, now: Timestamp) -> WorkerView {
    let WorkerRecord { worker: worker_id, topics, capabilities, first_seen_at, last_seen_at } = worker;
    WorkerView {
        worker_id,
        topics,
        capabilities,
        first_seen_at: first_seen_at.into(),
        last_seen_at: last_seen_at.into(),
        online: now.since(last_seen_at) < ONLINE,
    }
}
