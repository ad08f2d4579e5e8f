//! Limits: set for the system or a tenant, and in force.

use std::time::Duration;

use interlock_api::limits::{
    ConfigData, ConfigQuery, ConfigRequest, ConfigScope, ConfigView, EffectiveConfig, EffectiveConfigQuery,
    LimitsData,
};
use interlock_backend::tenants::LimitScope;
use interlock_backend::verbs::{ReadEffectiveLimits, ReadLimits};
use interlock_model::limit::{Limits, RUNS_MAX_BOUND};

use super::{
    Answer, Caller, Json, NoAnswer, Parameters, Payload, Permission, Refusal, StatusCode, bounded, endpoints,
};

/// The id of the system's only document.
const SYSTEM_ID: &str = "default";

/// A hundred years. An absent limit means forever.
const RETENTION_SEC_MAX: u64 = 3_155_760_000;

endpoints!("limits": put, get, effective);

/// Replaces the document of a scope. In force with the answer.
#[utoipa::path(put, path = "/api/v1/config", request_body = ConfigRequest,
    responses((status = 204, description = "In force")))]
async fn put(caller: Caller, Payload(request): Payload<ConfigRequest>) -> NoAnswer {
    caller.may(Permission::Administer)?;
    let scope = scope(&caller, request.scope, request.scope_id.as_deref())?;
    if scope == LimitScope::System {
        caller.covers_all()?;
    }
    let limits = within_bounds(request.data.limits)?;
    caller.app.stages.documents.set_limits(&scope, limits).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The document of a scope. Absent values are inherited.
#[utoipa::path(get, path = "/api/v1/config", params(ConfigQuery), responses((status = 200, body = ConfigView)))]
async fn get(caller: Caller, parameters: Parameters) -> Answer<ConfigView> {
    caller.may(Permission::ReadRest)?;
    let name_of = |kind| match kind {
        ConfigScope::System => "system",
        ConfigScope::Org => "org",
    };
    let kind = parameters.one_of("scope", &[ConfigScope::System, ConfigScope::Org], name_of)?;
    let kind = kind.ok_or_else(|| Refusal::invalid("scope is needed: system or org"))?;
    let scope = scope(&caller, kind, parameters.text("scope_id")?)?;
    let scope_id = match &scope {
        LimitScope::System => SYSTEM_ID.to_owned(),
        LimitScope::Tenant(tenant) => tenant.to_string(),
    };
    let written = caller.app.store.call(ReadLimits { scope }).await?;
    let data = data(written.limits.runs_max, written.limits.key_retention);
    Ok(Json(ConfigView { scope: kind, scope_id: Some(scope_id), data, revision: written.revision }))
}

/// What is in force for a tenant.
#[utoipa::path(get, path = "/api/v1/config/effective", params(EffectiveConfigQuery),
    responses((status = 200, body = EffectiveConfig)))]
async fn effective(caller: Caller, parameters: Parameters) -> Answer<EffectiveConfig> {
    caller.may(Permission::ReadRest)?;
    let tenant = parameters.parsed("org_id")?.unwrap_or_else(|| caller.tenant.clone());
    caller.covers(&tenant)?;
    let limits = caller.app.store.call(ReadEffectiveLimits { tenant }).await?;
    Ok(Json(EffectiveConfig { data: data(Some(limits.runs_max), limits.key_retention) }))
}

fn data(runs_max: Option<u32>, key_retention: Option<Duration>) -> ConfigData {
    let idempotency_retention_sec = key_retention.map(|time| time.as_secs());
    ConfigData { limits: LimitsData { max_concurrent_runs: runs_max, idempotency_retention_sec } }
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

fn within_bounds(limits: LimitsData) -> Result<Limits, Refusal> {
    let LimitsData { max_concurrent_runs, idempotency_retention_sec } = limits;
    if let Some(runs) = max_concurrent_runs {
        bounded("max_concurrent_runs", runs.into(), (0, RUNS_MAX_BOUND.into()))?;
    }
    if let Some(seconds) = idempotency_retention_sec {
        bounded("idempotency_retention_sec", seconds, (1, RETENTION_SEC_MAX))?;
    }
    let key_retention = idempotency_retention_sec.map(Duration::from_secs);
    Ok(Limits { runs_max: max_concurrent_runs, key_retention })
}
