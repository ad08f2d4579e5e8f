//! The dispatch policy: what is in force, and what it would decide.

use axum::Json;
use axum::extract::State;
use interlock_api::dispatch_policy::{CheckRequest, CheckView, DispatchPolicyView};
use interlock_control::policy::ExplainTarget;
use interlock_model::Tag;
use interlock_model::meta::{JobMeta, TAGS_MAX};

use super::Answer;
use crate::auth::{Caller, Permission};
use crate::body::Payload;
use crate::convert;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::router::Routes;
use crate::state::App;

pub(crate) fn register(routes: Routes) -> Routes {
    routes.get("/api/v1/dispatch-policy", show).post("/api/v1/dispatch-policy/check", check)
}

/// What is in force, as far as it concerns the tenant.
#[utoipa::path(get, path = "/api/v1/dispatch-policy", tag = "dispatch policy", responses(
    (status = 200, body = DispatchPolicyView), Refusals))]
pub(crate) async fn show(State(app): State<App>, caller: Caller) -> Answer<DispatchPolicyView> {
    caller.may(Permission::ReadRest)?;
    Ok(Json(convert::dispatch_policy::view(&app, &caller.tenant)))
}

/// What would be decided, and why: every rule that is looked at, and what the service says. Nothing of a job is changed.
#[utoipa::path(post, path = "/api/v1/dispatch-policy/check", tag = "dispatch policy", request_body = CheckRequest,
    responses((status = 200, body = CheckView), Refusals))]
pub(crate) async fn check(
    State(app): State<App>,
    caller: Caller,
    Payload(request): Payload<CheckRequest>,
) -> Answer<CheckView> {
    caller.may(Permission::ReadRest)?;
    let asked = match request {
        CheckRequest { job_id: Some(job), topic: None, capability: None, risk_tags, requires }
            if risk_tags.is_empty() && requires.is_empty() =>
        {
            app.policy.target(&caller.tenant, &job).await?
        }
        CheckRequest { job_id: None, topic: Some(topic), capability, risk_tags, requires } => {
            let (risk_tags, requires) = (tags("risk_tags", risk_tags)?, tags("requires", requires)?);
            ExplainTarget::Imagined {
                topic,
                meta: JobMeta { capability, risk_tags, requires, ..JobMeta::default() },
            }
        }
        _ => return Err(Refusal::invalid("either job_id alone, or topic and what else is known of the job")),
    };
    let explanation = app.policy.explain(&caller.tenant, &asked).await;
    Ok(Json(convert::dispatch_policy::explained(caller.tenant, explanation)))
}

fn tags(field: &str, tags: Vec<Tag>) -> Result<std::collections::BTreeSet<Tag>, Refusal> {
    if tags.len() > TAGS_MAX {
        return Err(Refusal::invalid(format!("{field}: at most {TAGS_MAX}")));
    }
    Ok(tags.into_iter().collect())
}
