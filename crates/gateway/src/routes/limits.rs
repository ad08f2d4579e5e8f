//! Limits: set for the system or a tenant, and in force.

use std::time::Duration;

use interlock_api::limits::{
    ConfigData, ConfigQuery, ConfigRequest, ConfigScope, ConfigView, EffectiveConfig, EffectiveConfigQuery,
    LimitsData,
};
use interlock_backend::tenants::LimitScope;
use interlock_backend::verbs::{ReadEffectiveLimits, ReadLimits, SetLimits};
use interlock_model::TenantId;
use interlock_model::limit::checks::check_tenant_runs;
use interlock_model::limit::document::LimitDocument;
use interlock_model::limit::{BYTES_BOUNDS, EffectiveLimits, Limits, QUOTA_BOUNDS, RUNS_MAX_BOUND};

use super::{
    Answer, App, Caller, Json, NoAnswer, Parameters, Payload, Permission, Refusal, StatusCode, bounded,
    endpoints,
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
    if limits.tenants_max.is_some() && scope != LimitScope::System {
        return Err(Refusal::invalid("max_tenants: the scope system alone has this limit"));
    }
    let keeps_quotas = caller.covers_all().is_err();
    let written = caller.app.store.call(ReadLimits { scope: scope.clone() }).await?.limits;
    if keeps_quotas {
        check_quotas(limits, written)?;
    }
    // This document has no queue; that of `tenant-runs` stays.
    let Limits { on_full, queued_max, queue_wait, queue_order, .. } = written;
    let limits = Limits { on_full, queued_max, queue_wait, queue_order, ..limits };
    let set = SetLimits { scope, limits, keeps_quotas };
    caller.app.stages.documents.set_limits(set).await?;
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
    let data = data(written.limits);
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
    let EffectiveLimits { runs_max, key_retention, bounds, quotas, queue: _ } = limits;
    Ok(Json(EffectiveConfig {
        data: data(Limits {
            runs_max: Some(runs_max),
            key_retention,
            turn_bytes_max: Some(bounds.turn_bytes_max),
            run_bytes_max: Some(bounds.run_bytes_max),
            workflows_max: Some(quotas.workflows_max),
            workflow_versions_max: Some(quotas.workflow_versions_max),
            workers_max: Some(quotas.workers_max),
            ..Limits::default()
        }),
    }))
}

/// Sets the tenant's own slots by the document of `tenant-runs`. Its other limits stay.
pub(super) async fn put_tenant_runs(
    app: &App,
    tenant: &TenantId,
    document: &LimitDocument,
    replaces: Option<u64>,
) -> Result<u64, Refusal> {
    check_tenant_runs(document)
        .map_err(|problem| Refusal::invalid(format!("{problem}; nothing was changed")))?;
    let scope = LimitScope::Tenant(tenant.clone());
    let written = app.store.call(ReadLimits { scope: scope.clone() }).await?;
    if replaces.is_some_and(|revision| revision != written.revision) {
        return Err(Refusal::limit_changed(written.revision));
    }
    let queue = document.queue.as_ref();
    let limits = Limits {
        runs_max: document.max_runs,
        on_full: Some(document.on_full),
        queued_max: queue.and_then(|queue| queue.max),
        queue_wait: queue.and_then(|queue| queue.max_wait_sec).map(|sec| Duration::from_secs(sec.into())),
        queue_order: queue.map(|queue| queue.order),
        ..written.limits
    };
    Ok(app.stages.documents.set_limits(SetLimits { scope, limits, keeps_quotas: true }).await?)
}

fn data(limits: Limits) -> ConfigData {
    ConfigData {
        limits: LimitsData {
            max_concurrent_runs: limits.runs_max,
            idempotency_retention_sec: limits.key_retention.map(|time| time.as_secs()),
            max_turn_bytes: limits.turn_bytes_max,
            max_run_bytes: limits.run_bytes_max,
            max_workflows: limits.workflows_max,
            max_workflow_versions: limits.workflow_versions_max,
            max_workers: limits.workers_max,
            max_tenants: limits.tenants_max,
        },
    }
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

/// What protects other tenants is not the tenant's own to change: absent, or as it is written.
fn check_quotas(limits: Limits, written: Limits) -> Result<(), Refusal> {
    let kept = limits.with_quotas_of(written);
    let is_kept = |given: Option<u64>, kept: Option<u64>| given.is_none() || given == kept;
    let number = |limit: Option<u32>| limit.map(u64::from);
    let all = is_kept(limits.turn_bytes_max, kept.turn_bytes_max)
        && is_kept(limits.run_bytes_max, kept.run_bytes_max)
        && is_kept(number(limits.workflows_max), number(kept.workflows_max))
        && is_kept(number(limits.workflow_versions_max), number(kept.workflow_versions_max))
        && is_kept(number(limits.workers_max), number(kept.workers_max));
    if all {
        return Ok(());
    }
    Err(Refusal::forbidden(
        "only a key for all tenants may change limits other than max_concurrent_runs and idempotency_retention_sec",
    ))
}

fn within_bounds(limits: LimitsData) -> Result<Limits, Refusal> {
    if let Some(runs) = limits.max_concurrent_runs {
        bounded("max_concurrent_runs", runs.into(), (0, RUNS_MAX_BOUND.into()))?;
    }
    if let Some(seconds) = limits.idempotency_retention_sec {
        bounded("idempotency_retention_sec", seconds, (1, RETENTION_SEC_MAX))?;
    }
    for (name, bytes) in [("max_turn_bytes", limits.max_turn_bytes), ("max_run_bytes", limits.max_run_bytes)]
    {
        bytes.map_or(Ok(()), |bytes| bounded(name, bytes, BYTES_BOUNDS))?;
    }
    for (name, number) in [
        ("max_workflows", limits.max_workflows),
        ("max_workflow_versions", limits.max_workflow_versions),
        ("max_workers", limits.max_workers),
        ("max_tenants", limits.max_tenants),
    ] {
        let (low, high) = QUOTA_BOUNDS;
        number.map_or(Ok(()), |number| bounded(name, number.into(), (low.into(), high.into())))?;
    }
    Ok(Limits {
        runs_max: limits.max_concurrent_runs,
        key_retention: limits.idempotency_retention_sec.map(Duration::from_secs),
        turn_bytes_max: limits.max_turn_bytes,
        run_bytes_max: limits.max_run_bytes,
        workflows_max: limits.max_workflows,
        workflow_versions_max: limits.max_workflow_versions,
        workers_max: limits.max_workers,
        tenants_max: limits.max_tenants,
        ..Limits::default()
    })
}
