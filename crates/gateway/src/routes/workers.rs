//! Workers of both edges, as they were last seen, and sent home.

use axum::Json;
use axum::extract::State;
use interlock_api::workers::{DrainRequest, WorkerView};
use interlock_api::{Page, PageQuery};
use interlock_control::worker_directory::KnownWorker;
use interlock_model::{TenantId, WorkerId};

use super::Answer;
use crate::auth::{Caller, Permission};
use crate::body::Payload;
use crate::convert;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::path::Named;
use crate::query::Parameters;
use crate::router::Routes;
use crate::state::{App, Shared};

pub(crate) fn register(routes: Routes) -> Routes {
    routes
        .get("/api/v1/workers", list)
        .get("/api/v1/workers/{worker}", get)
        .post("/api/v1/workers/{worker}/drain", drain)
}

/// Workers on HTTP that have asked for the tenant's jobs, and workers on NATS that serve it.
#[utoipa::path(get, path = "/api/v1/workers", tag = "workers", params(PageQuery), responses(
    (status = 200, body = Page<WorkerView>), Refusals))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<Page<WorkerView>> {
    caller.may(Permission::ReadRest)?;
    let page = app.worker_directory.list(&caller.tenant, &parameters.page()?).await?;
    Ok(Json(convert::page(page, convert::workers::view)))
}

#[utoipa::path(get, path = "/api/v1/workers/{worker}", tag = "workers", params(("worker" = String, Path)),
    responses((status = 200, body = WorkerView), Refusals))]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<WorkerId>,
) -> Answer<WorkerView> {
    caller.may(Permission::ReadRest)?;
    Ok(Json(convert::workers::view(find(&app, &caller.tenant, &id).await?)))
}

/// Gives the worker no new jobs, or gives it jobs again. It keeps those that it has.
#[utoipa::path(post, path = "/api/v1/workers/{worker}/drain", tag = "workers", params(("worker" = String, Path)),
    request_body = DrainRequest, responses((status = 200, body = WorkerView), Refusals))]
pub(crate) async fn drain(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<WorkerId>,
    Payload(asked): Payload<DrainRequest>,
) -> Answer<WorkerView> {
    caller.may(Permission::Drain)?;
    let known = find(&app, &caller.tenant, &id).await?;
    if known.tenant.is_none() {
        // It serves everybody.
        caller.covers_all()?;
    }
    app.workers.drain(&caller.tenant, &known, asked.draining).await?;
    Ok(Json(convert::workers::view(find(&app, &caller.tenant, &id).await?)))
}

async fn find(app: &Shared, tenant: &TenantId, worker: &WorkerId) -> Result<KnownWorker, Refusal> {
    let found = app.worker_directory.find(tenant, worker).await?;
    found.ok_or_else(|| Refusal::not_found("worker", worker.as_str()))
}
