//! Workers on HTTP and on NATS, as they were last seen; drained.

use interlock_api::workers::{DrainRequest, WorkerView};
use interlock_control::worker_directory::KnownWorker;
use interlock_model::WorkerId;
use interlock_model::scheduling::LiveWorker;

use super::{
    Answer, Caller, Json, Named, Page, PageQuery, Parameters, Payload, Permission, Refusal, endpoints, found,
    page_of,
};

endpoints!("workers": list, get, drain);

/// HTTP workers that have claimed jobs of the tenant, and NATS workers that serve it.
#[utoipa::path(get, path = "/api/v1/workers", params(PageQuery), responses((status = 200, body = Page<WorkerView>)))]
async fn list(caller: Caller, parameters: Parameters) -> Answer<Page<WorkerView>> {
    caller.may(Permission::ReadRest)?;
    let page = caller.app.stages.worker_directory.list(&caller.tenant, &parameters.page()?).await?;
    Ok(page_of(page, view))
}

#[utoipa::path(get, path = "/api/v1/workers/{worker}", responses((status = 200, body = WorkerView)))]
async fn get(caller: Caller, Named(id): Named<WorkerId>) -> Answer<WorkerView> {
    caller.may(Permission::ReadRest)?;
    Ok(Json(view(known(&caller, &id).await?)))
}

/// Gives the worker no new jobs, or gives it jobs again. It keeps those that it has.
#[utoipa::path(post, path = "/api/v1/workers/{worker}/drain", request_body = DrainRequest,
    responses((status = 200, body = WorkerView)))]
async fn drain(
    caller: Caller,
    Named(id): Named<WorkerId>,
    Payload(request): Payload<DrainRequest>,
) -> Answer<WorkerView> {
    caller.may(Permission::Drain)?;
    let worker = known(&caller, &id).await?;
    if worker.tenant.is_none() {
        // It serves every tenant.
        caller.covers_all()?;
    }
    caller.app.stages.workers.drain(&caller.tenant, &worker, request.draining).await?;
    Ok(Json(view(known(&caller, &id).await?)))
}

async fn known(caller: &Caller, id: &WorkerId) -> Result<KnownWorker, Refusal> {
    found(caller.app.stages.worker_directory.find(&caller.tenant, id).await?, id)
}

fn view(known: KnownWorker) -> WorkerView {
    let KnownWorker { found, tenant: _, first_seen_at, last_seen_at, is_online } = known;
    let LiveWorker { worker, edge, topics, capabilities, pool, is_draining, load } = found;
    WorkerView {
        worker_id: worker,
        edge,
        topics,
        capabilities,
        pool,
        active_jobs: load.map(|load| load.jobs),
        max_parallel_jobs: load.map(|load| load.jobs_max),
        first_seen_at: first_seen_at.map(Into::into),
        last_seen_at: last_seen_at.into(),
        online: is_online,
        draining: is_draining,
    }
}
