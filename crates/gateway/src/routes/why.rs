//! Why something waits.

use axum::Json;
use axum::extract::State;
use interlock_api::why::{WhyQuery, WhyView};
use interlock_backend::verbs::ReadWorkflow;
use interlock_model::lock::{LockName, StageLock};
use interlock_model::{JobId, Resource, RunId, TenantId, WorkflowId};

use super::Answer;
use crate::auth::{Caller, Permission};
use crate::convert;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::path::named;
use crate::query::Parameters;
use crate::router::Routes;
use crate::state::{App, Shared};

pub(crate) fn register(routes: Routes) -> Routes {
    routes.get("/api/v1/why", why)
}

const SUBJECTS: [&str; 4] = ["run_id", "job_id", "resource", "workflow_id"];

/// What a run, a job, a lock or a start waits for: who has it, since when, the place in line, the expected wait.
#[utoipa::path(get, path = "/api/v1/why", tag = "why", params(WhyQuery), responses(
    (status = 200, body = WhyView), Refusals))]
pub(crate) async fn why(State(app): State<App>, caller: Caller, parameters: Parameters) -> Answer<WhyView> {
    let mut given = Vec::new();
    for name in SUBJECTS {
        given.extend(parameters.text(name)?.map(|text| (name, text)));
    }
    let [(name, text)] = given[..] else {
        return Err(Refusal::invalid(format!("name exactly one of {}", SUBJECTS.join(", "))));
    };
    let found = match name {
        "run_id" => {
            caller.may(Permission::ReadRuns)?;
            let run: RunId = named(text)?;
            app.why.run(&caller.tenant, run).await?.ok_or_else(|| Refusal::not_found("run", text))?
        }
        "job_id" => {
            caller.may(Permission::ReadJobs)?;
            let job: JobId = named(text)?;
            app.why.job(&caller.tenant, &job).await?.ok_or_else(|| Refusal::not_found("job", text))?
        }
        "resource" => {
            caller.may(Permission::ReadRest)?;
            why_lock(&app, &caller.tenant, text).await?
        }
        _ => {
            caller.may(Permission::ReadRuns)?;
            let workflow: WorkflowId = named(text)?;
            let known =
                app.store.call(ReadWorkflow { tenant: caller.tenant.clone(), id: workflow.clone() }).await?;
            known.ok_or_else(|| Refusal::not_found("workflow", text))?;
            app.why.start(&caller.tenant).await?
        }
    };
    Ok(Json(convert::why::view(text.to_owned(), found)))
}

/// One of the tenant's locks; or, by its key, one of the control plane's own.
async fn why_lock(
    app: &Shared,
    tenant: &TenantId,
    text: &str,
) -> Result<interlock_control::why::WhyAnswer, Refusal> {
    let resource: Resource = text.parse().map_err(|error| Refusal::invalid(format!("resource: {error}")))?;
    let name = text.strip_prefix(&format!("{}:", app.deployment.prefix)).unwrap_or(text);
    if let Some(run) = name.strip_prefix("wf:run:lock:") {
        let found = app.why.run(tenant, named(run)?).await?;
        return found.ok_or_else(|| Refusal::not_found("run", run));
    }
    let stage = StageLock::ALL.into_iter().find(|stage| stage.key() == name);
    let lock = match (stage, name.strip_prefix("wf:run:admission:")) {
        (Some(stage), _) => LockName::Stage(stage),
        (None, Some(own)) if own == tenant.as_str() => LockName::Admission(tenant.clone()),
        (None, _) => LockName::Of(tenant.clone(), resource),
    };
    Ok(app.why.lock(&lock).await?)
}
