//! What the server says of itself: status for people, health for machines, metrics, and its own description.

use interlock_backend::verbs::{CountDeadLetters, ListTenants, ReadUsage};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use interlock_api::status::{
    BackendStatus, BusStatus, Health, Readiness, StatusView, StoreStatus, Strategies,
};
use interlock_backend::dead_letters::DeadLetterCount;
use interlock_backend::{PageRequest, StoreError};
use interlock_model::TenantId;
use interlock_model::admission::Usage;
use interlock_model::contention::Scope;
use interlock_model::lock::LockLimits;
use interlock_model::time::millis;
use serde_json::{Value, json};

use super::Answer;
use crate::auth::Caller;
use crate::convert::{retry_policies, rollouts};
use crate::error::Refusal;
use crate::openapi::{self, Refusals};
use crate::router::Routes;
use crate::state::{App, Shared};

/// Tenants that one scrape looks at, and of them in one step.
const TENANTS_MAX: usize = 10_000;
const TENANTS_AT_ONCE: usize = 1_000;

/// How long the store may take to say that it is there.
const READY_WITHIN: Duration = Duration::from_secs(2);

pub(crate) fn register(routes: Routes) -> Routes {
    routes.get("/api/v1/status", status).get("/openapi.json", openapi_json)
}

/// What every process may serve, whatever its roles.
pub(crate) fn register_probes(routes: Routes) -> Routes {
    routes.get("/healthz", healthz).get("/readyz", readyz).get("/metrics", metrics)
}

/// Roles, backend, durability, strategies and policies in force.
#[utoipa::path(get, path = "/api/v1/status", tag = "status", responses((status = 200, body = StatusView), Refusals))]
pub(crate) async fn status(State(app): State<App>, caller: Caller) -> Answer<StatusView> {
    let tenants = match caller.covers_all() {
        Ok(()) => Some(tenants(&app).await?.len() as u64),
        Err(_) => None,
    };
    let deployment = &app.deployment;
    let in_force = app.contention.in_force();
    Ok(Json(StatusView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance_id: app.process.instance().to_string(),
        uptime_ms: millis(app.started.elapsed()),
        roles: deployment.roles.clone(),
        backend: BackendStatus {
            kind: deployment.backend.clone(),
            durability: deployment.durability.clone(),
        },
        strategies: Strategies {
            admission: app.process.settings().admission_strategy.name().to_owned(),
            run: app.process.settings().run_strategy.name().to_owned(),
        },
        retry_policies: Scope::ALL.map(|scope| retry_policies::view(&in_force.view(scope))).to_vec(),
        rollout: in_force.rollout.as_ref().map(rollouts::status),
        policies: policies(&app),
        store: StoreStatus { commands_sent: app.store.commands_sent() },
        bus: BusStatus { kind: deployment.bus.clone(), connected: app.process.bus().is_connected() },
        tenants,
    }))
}

fn policies(app: &Shared) -> BTreeMap<String, Value> {
    let settings = app.process.settings();
    BTreeMap::from([
        ("job_lease_ms".to_owned(), json!(millis(settings.job_lease))),
        ("retry_after_ms".to_owned(), {
            json!({"min": millis(settings.retry_after_min), "max": millis(settings.retry_after_max)})
        }),
        ("lock_limits".to_owned(), {
            let LockLimits { held_max, waiting_max, line_max } = settings.lock_limits;
            json!({"locks_per_tenant_max": held_max, "lock_waiters_per_tenant_max": waiting_max, "lock_line_max": line_max})
        }),
        ("lock_silence_ms".to_owned(), json!(millis(settings.lock_silence))),
        ("lock_poll_ms".to_owned(), json!(millis(settings.lock_poll))),
        ("dispatch_policy".to_owned(), {
            let policy = &settings.dispatch_policy;
            let service = policy.service.as_ref().map(|service| service.place.as_str());
            json!({"rules": policy.rules.iter().count(), "service": service})
        }),
    ])
}

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", tag = "status", security(()), responses((status = 200, body = Health)))]
pub(crate) async fn healthz() -> Json<Health> {
    Json(Health { status: "ok".to_owned() })
}

/// Whether the store answers, and whether the bus does.
#[utoipa::path(get, path = "/readyz", tag = "status", security(()), responses(
    (status = 200, body = Readiness), (status = 503, body = interlock_api::Problem,
        content_type = "application/problem+json", description = "Not ready")))]
pub(crate) async fn readyz(State(app): State<App>) -> Result<Json<Readiness>, Refusal> {
    let first = PageRequest { limit: 1, after: None };
    let look = tokio::time::timeout(READY_WITHIN, app.store.call(ListTenants { page: first.clone() }));
    match look.await {
        _ if app.closing.is_cancelled() => Err(Refusal::unavailable("the server is shutting down")),
        // Without the bus everything goes on at the poll's pace: that is ready.
        Ok(Ok(_)) => Ok(Json(Readiness { ready: true, store: true, bus: app.process.bus().is_connected() })),
        Ok(Err(error)) => Err(Refusal::unavailable(&error.to_string())),
        Err(_) => Err(Refusal::unavailable("the store does not answer")),
    }
}

/// Numbers for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "status", security(()), responses(
    (status = 200, body = String, content_type = "text/plain", description = "Prometheus' text format")))]
pub(crate) async fn metrics(State(app): State<App>) -> Response {
    // One scrape at a time: anybody may ask, and each looks at many tenants.
    let _alone = app.scrape.lock().await;
    app.metrics.follow_refused_results(app.process.counted().results_refused);
    app.metrics.follow_fail_opens(app.policy.fail_opens());
    app.metrics.name_the_busiest(Instant::now());
    app.metrics.follow_contention(app.contention.tally.counted());
    app.metrics.follow_stages(app.process.counted());
    app.metrics.follow_letters_max(app.process.settings().dead_letters_max);
    let usages = usages(&app).await;
    let is_away = matches!(usages, Err(StoreError::Unavailable { .. }));
    app.metrics.set_reach(!is_away, app.process.bus().is_connected());
    app.metrics.follow_store(app.store.calls());
    match usages {
        Ok((usages, letters)) => {
            app.metrics.set_active_runs(usages);
            app.metrics.follow_letters(&letters);
        }
        // The other numbers are still worth having.
        Err(error) => {
            tracing::warn!(%error, "cannot read the live runs and dead letters; the last known ones are shown");
        }
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.metrics.render()).into_response()
}

/// How many live runs and dead letters each tenant has.
async fn usages(app: &Shared) -> Result<Usages, StoreError> {
    let (mut usages, mut letters) = (Vec::new(), Vec::new());
    for tenant in tenants(app).await? {
        let usage = app.store.call(ReadUsage { tenant: tenant.clone() }).await?;
        letters.push((tenant.clone(), app.store.call(CountDeadLetters { tenant: tenant.clone() }).await?));
        usages.push((tenant, usage));
    }
    Ok((usages, letters))
}

type Usages = (Vec<(TenantId, Usage)>, Vec<(TenantId, DeadLetterCount)>);

async fn tenants(app: &Shared) -> Result<Vec<TenantId>, StoreError> {
    let mut tenants = Vec::new();
    let mut page = PageRequest { limit: TENANTS_AT_ONCE, after: None };
    while tenants.len() < TENANTS_MAX {
        let found = app.store.call(ListTenants { page: page.clone() }).await?;
        tenants.extend(found.items);
        if found.next.is_none() {
            break;
        }
        page.after = found.next;
    }
    Ok(tenants)
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "status", security(()), responses(
    (status = 200, body = Object, description = "OpenAPI 3.1")))]
pub(crate) async fn openapi_json() -> Response {
    static RENDERED: OnceLock<Bytes> = OnceLock::new();
    let rendered =
        RENDERED.get_or_init(|| serde_json::to_vec(&openapi::document()).unwrap_or_default().into());
    (StatusCode::OK, [(CONTENT_TYPE, "application/json")], rendered.clone()).into_response()
}

#[cfg(test)]
mod tests {
    use interlock_control::contention::CleanupContext;
    use interlock_model::contention::Arm;

    use super::*;
    use crate::state::tests::app;

    #[tokio::test]
    async fn a_scrape_shows_what_the_stages_have_counted_until_then() {
        let app = app().await;
        let scrape = async || {
            let answer = metrics(State(app.clone())).await;
            let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            String::from_utf8(body.to_vec()).unwrap()
        };
        assert!(scrape().await.contains("\nlock_busy_retry_count 0\n"));
        let tally = &app.contention.tally;
        tally.busy(Arm::Control, (1, Duration::ZERO), Duration::from_millis(500));
        tally.cleanup_failed(CleanupContext::AtCapacity);
        let text = scrape().await;
        assert!(text.contains("\nlock_busy_retry_count 1\n"), "{text}");
        assert!(text.contains("\nidempotency_cleanup_failures_total{context=\"at_capacity\"} 1\n"), "{text}");
    }

    #[tokio::test]
    async fn a_scrape_gives_names_to_tenants_that_have_become_busy() {
        let app = app().await;
        let ask = |tenant: &str| drop(app.metrics.tenant(&tenant.parse().unwrap()));
        (0..app.settings.tenant_labels_max).for_each(|number| ask(&format!("tenant-{number}")));
        (0..3).for_each(|_| ask("late"));
        let series = "admissions_total{tenant=\"late\"";
        assert!(!app.metrics.render().contains(series));
        drop(metrics(State(app.clone())).await);
        assert!(app.metrics.render().contains(series));
    }
}
