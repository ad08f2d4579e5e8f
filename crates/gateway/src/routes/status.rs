//! The status of the server, and the `OpenAPI` document.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use interlock_api::status::{BackendStatus, BusStatus, StatusView, StoreStatus, Strategies};
use interlock_model::contention::Scope;
use interlock_model::lock::LockLimits;
use interlock_model::time::millis;
use serde_json::{Value, json};

use super::probes::tenants;
use super::{Answer, Caller, Json, Shared, endpoints, retry_policies, rollouts};
use crate::openapi;

endpoints!("status": status, openapi_json);

/// Roles, backend, durability, strategies and policies in force.
#[utoipa::path(get, path = "/api/v1/status", responses((status = 200, body = StatusView)))]
async fn status(caller: Caller) -> Answer<StatusView> {
    let app = &caller.app;
    let tenants = match caller.covers_all() {
        Ok(()) => Some(tenants(app).await?.len() as u64),
        Err(_) => None,
    };
    let (deployment, process) = (&app.deployment, &app.stages.process);
    let in_force = app.stages.contention.in_force();
    Ok(Json(StatusView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance_id: process.instance().to_string(),
        uptime_ms: millis(app.started.elapsed()),
        roles: deployment.roles.clone(),
        backend: BackendStatus {
            kind: deployment.backend.clone(),
            durability: deployment.durability.clone(),
        },
        strategies: Strategies {
            admission: process.settings().admission_strategy.name().to_owned(),
            run: process.settings().run_strategy.name().to_owned(),
        },
        retry_policies: Scope::ALL.map(|scope| retry_policies::view(&in_force.view(scope))).to_vec(),
        rollout: in_force.rollout.as_ref().map(rollouts::status),
        policies: policies(app),
        store: StoreStatus { commands_sent: app.store.commands_sent() },
        bus: BusStatus { kind: deployment.bus.clone(), connected: process.bus().is_connected() },
        tenants,
    }))
}

fn policies(app: &Shared) -> BTreeMap<String, Value> {
    let settings = app.stages.process.settings();
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

/// This document.
#[utoipa::path(get, path = "/openapi.json", security(()), responses(
    (status = 200, body = Object, description = "OpenAPI 3.1")))]
async fn openapi_json() -> Response {
    static RENDERED: OnceLock<Bytes> = OnceLock::new();
    let rendered =
        RENDERED.get_or_init(|| serde_json::to_vec(&openapi::document()).unwrap_or_default().into());
    ([(CONTENT_TYPE, "application/json")], rendered.clone()).into_response()
}
