//! Limits: written down for the system or a tenant, and in force.

use interlock_backend::verbs::{ReadEffectiveLimits, ReadLimits};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use interlock_api::limits::{
    ConfigData, ConfigQuery, ConfigRequest, ConfigScope, ConfigView, EffectiveConfig, EffectiveConfigQuery,
    LimitsData,
};
use interlock_backend::tenants::LimitScope;
use interlock_model::TenantId;
use interlock_model::limit::{Limits, RUNS_MAX_BOUND};

use super::Answer;
use crate::auth::{Caller, Permission};
use crate::body::Payload;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::query::Parameters;
use crate::router::Routes;
use crate::state::App;

/// Of the whole system there is one document.
const SYSTEM_ID: &str = "default";

/// A hundred years: longer is "for ever", which is said by leaving it out.
const RETENTION_SEC_MAX: u64 = 3_155_760_000;

pub(crate) fn register(routes: Routes) -> Routes {
    routes.put("/api/v1/config", put).get("/api/v1/config", get).get("/api/v1/config/effective", effective)
}

/// Replaces what is written down for a scope. In force with the answer.
#[utoipa::path(put, path = "/api/v1/config", tag = "limits", request_body = ConfigRequest, responses(
    (status = 204, description = "In force"), Refusals))]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    Payload(asked): Payload<ConfigRequest>,
) -> Result<StatusCode, Refusal> {
    caller.may(Permission::Administer)?;
    let scope = scope(&caller, asked.scope, asked.scope_id.as_deref())?;
    if scope == LimitScope::System {
        caller.covers_all()?;
    }
    let limits = within_bounds(asked.data.limits)?;
    app.documents.set_limits(&scope, limits).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What is written down for a scope. What is not there is inherited.
#[utoipa::path(get, path = "/api/v1/config", tag = "limits", params(ConfigQuery), responses(
    (status = 200, body = ConfigView), Refusals))]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<ConfigView> {
    caller.may(Permission::ReadRest)?;
    let kind = parameters.named("scope", |name| match name {
        "system" => Ok(ConfigScope::System),
        "org" => Ok(ConfigScope::Org),
        _ => Err("there is no such scope; there are system and org".to_owned()),
    })?;
    let kind = kind.ok_or_else(|| Refusal::invalid("scope is needed: system or org"))?;
    let scope = scope(&caller, kind, parameters.text("scope_id")?)?;
    let written = app.store.call(ReadLimits { scope: scope.clone() }).await?;
    let scope_id = match scope {
        LimitScope::System => SYSTEM_ID.to_owned(),
        LimitScope::Tenant(tenant) => tenant.to_string(),
    };
    let limits = LimitsData {
        max_concurrent_runs: written.limits.runs_max,
        idempotency_retention_sec: written.limits.key_retention.map(|time| time.as_secs()),
    };
    let data = ConfigData { limits };
    Ok(Json(ConfigView { scope: kind, scope_id: Some(scope_id), data, revision: written.revision }))
}

/// What is in force for a tenant.
#[utoipa::path(get, path = "/api/v1/config/effective", tag = "limits", params(EffectiveConfigQuery), responses(
    (status = 200, body = EffectiveConfig), Refusals))]
pub(crate) async fn effective(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<EffectiveConfig> {
    caller.may(Permission::ReadRest)?;
    let named =
        parameters.named("org_id", |name| name.parse::<TenantId>().map_err(|error| error.to_string()))?;
    let tenant = named.unwrap_or_else(|| caller.tenant.clone());
    caller.covers(&tenant)?;
    let limits = app.store.call(ReadEffectiveLimits { tenant: tenant.clone() }).await?;
    let limits = LimitsData {
        max_concurrent_runs: Some(limits.runs_max),
        idempotency_retention_sec: limits.key_retention.map(|time| time.as_secs()),
    };
    Ok(Json(EffectiveConfig { data: ConfigData { limits } }))
}

fn scope(caller: &Caller, kind: ConfigScope, id: Option<&str>) -> Result<LimitScope, Refusal> {
    match (kind, id) {
        (ConfigScope::System, None | Some("" | SYSTEM_ID)) => Ok(LimitScope::System),
        (ConfigScope::System, Some(_)) => {
            Err(Refusal::invalid(format!("scope_id: the system's is {SYSTEM_ID:?}, or absent")))
        }
        (ConfigScope::Org, None) => Ok(LimitScope::Tenant(caller.tenant.clone())),
        (ConfigScope::Org, Some(id)) => {
            let tenant = id.parse().map_err(|error| Refusal::invalid(format!("scope_id: {error}")))?;
            caller.covers(&tenant)?;
            Ok(LimitScope::Tenant(tenant))
        }
    }
}

fn within_bounds(asked: LimitsData) -> Result<Limits, Refusal> {
    let LimitsData { max_concurrent_runs, idempotency_retention_sec } = asked;
    if max_concurrent_runs.is_some_and(|runs| runs > RUNS_MAX_BOUND) {
        return Err(Refusal::invalid(format!("max_concurrent_runs: from 0 to {RUNS_MAX_BOUND}")));
    }
    if idempotency_retention_sec.is_some_and(|seconds| !(1..=RETENTION_SEC_MAX).contains(&seconds)) {
        return Err(Refusal::invalid(format!("idempotency_retention_sec: from 1 to {RETENTION_SEC_MAX}")));
    }
    Ok(Limits {
        runs_max: max_concurrent_runs,
        key_retention: idempotency_retention_sec.map(Duration::from_secs),
    })
}
