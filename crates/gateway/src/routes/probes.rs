//! What every process serves, whatever its roles: health, readiness and metrics.

use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use interlock_api::Problem;
use interlock_api::status::{Health, Readiness};
use interlock_backend::limits::LimitUsage;
use interlock_backend::verbs::{
    CountDeadLetters, ListBudgets, ListLimits, ListTenants, ReadLimitUsage, ReadUsage,
};
use interlock_backend::{PageRequest, StoreError};
use interlock_control::installation::DATA_LOST;
use interlock_model::admission::Usage;
use interlock_model::limit::rule::SlotClaim;
use interlock_model::{LimitName, TenantId};

use super::{Answer, App, Json, Refusal, Shared, endpoints};
use crate::metrics::{BudgetFigures, LimitFigures, Scrape, TenantFigures};
use crate::origin::Scraper;

/// Tenants that one scrape reads, and how many at once.
const TENANTS_MAX: usize = 10_000;
const TENANTS_AT_ONCE: usize = 1_000;

/// Named limits that one scrape reads, of all tenants together.
const LIMITS_READ_MAX: usize = 1_000;

/// How long the store may take to answer a readiness check.
const READY_WITHIN: Duration = Duration::from_secs(2);

endpoints!("status": healthz, readyz, metrics);

pub(super) const METRICS: &str = "/metrics";

/// Whether the process is alive.
#[utoipa::path(get, path = "/healthz", security(()), responses((status = 200, body = Health)))]
async fn healthz() -> Json<Health> {
    Json(Health { status: "ok".to_owned() })
}

/// Whether the store answers, and whether the bus does.
#[utoipa::path(get, path = "/readyz", security(()), responses((status = 200, body = Readiness),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "Not ready")))]
async fn readyz(State(app): State<App>) -> Answer<Readiness> {
    let first = PageRequest { limit: 1, after: None };
    let read = tokio::time::timeout(READY_WITHIN, app.store.call(ListTenants { page: first }));
    match read.await {
        _ if app.closing.is_cancelled() => Err(Refusal::unavailable("the server is shutting down")),
        _ if app.stages.process.has_lost_data() => Err(Refusal::unavailable(DATA_LOST)),
        Ok(Ok(_)) if app.store.calls().is_full() => Err(Refusal::storage_full("only reads are answered")),
        // Without the bus everything continues at the pace of the polls: that is ready.
        Ok(Ok(_)) => {
            let bus = app.stages.process.bus().is_connected();
            Ok(Json(Readiness { ready: true, store: true, bus }))
        }
        Ok(Err(error)) => Err(Refusal::unavailable(&error.to_string())),
        Err(_) => Err(Refusal::unavailable("the store does not answer")),
    }
}

/// Metrics for Prometheus.
#[utoipa::path(get, path = "/metrics", security(()), responses(
    (status = 200, body = String, content_type = "text/plain", description = "Prometheus' text format"),
    (status = 403, body = Problem, content_type = "application/problem+json",
        description = "Without API keys, under a name that is not the server's")))]
async fn metrics(_: Scraper, State(app): State<App>) -> Response {
    // One scrape at a time: it needs no key, and each reads many tenants.
    let _alone = app.scrape.lock().await;
    app.metrics.name_the_busiest(Instant::now());
    let tenants = tenant_figures(&app).await;
    let is_unreachable = matches!(tenants, Err(StoreError::Unavailable { .. }));
    let process = &app.stages.process;
    let scrape = Scrape {
        counted: process.counted(),
        contention: app.stages.contention.tally.counted(),
        fail_opens: app.stages.policy.fail_opens(),
        dead_letters_max: process.settings().dead_letters_max,
        store_calls: app.store.calls().counted(),
        is_store_up: !is_unreachable,
        has_lost_data: process.has_lost_data(),
        is_bus_up: process.bus().is_connected(),
    };
    let tenants = tenants.inspect_err(|error| {
        tracing::warn!(%error, "cannot read active runs and dead letters; showing the last known figures");
    });
    app.metrics.scraped(scrape, tenants.ok());
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.metrics.render()).into_response()
}

async fn tenant_figures(app: &Shared) -> Result<Vec<TenantFigures>, StoreError> {
    let mut figures = Vec::new();
    let mut limits_left = LIMITS_READ_MAX;
    for tenant in tenants(app).await? {
        let usage = app.store.call(ReadUsage { tenant: tenant.clone() }).await?;
        let dead_letters = app.store.call(CountDeadLetters { tenant: tenant.clone() }).await?;
        let budgets = budget_figures(app, &tenant).await?;
        let limits = limit_figures(app, &tenant, usage, &mut limits_left).await?;
        figures.push(TenantFigures { tenant, usage, dead_letters, budgets, limits });
    }
    Ok(figures)
}

/// The tenant's own limit, and its named ones as long as `left` lasts.
async fn limit_figures(
    app: &Shared,
    tenant: &TenantId,
    usage: Usage,
    left: &mut usize,
) -> Result<Vec<LimitFigures>, StoreError> {
    let read = async |limit: LimitName, max: Option<u32>| {
        let read = ReadLimitUsage { tenant: tenant.clone(), name: limit.clone(), group: None };
        let LimitUsage { live, queued, debounced, .. } = app.store.call(read).await?;
        Ok::<_, StoreError>(LimitFigures { limit, live, max, queued: queued + debounced })
    };
    let own = SlotClaim::tenant_runs().limit;
    let mut figures = vec![read(own, Some(usage.runs_max)).await?];
    for limit in app.store.call(ListLimits { tenant: tenant.clone() }).await?.limits.into_iter().take(*left) {
        *left -= 1;
        figures.push(read(limit.name, limit.document.max_runs).await?);
    }
    Ok(figures)
}

async fn budget_figures(app: &Shared, tenant: &TenantId) -> Result<Vec<BudgetFigures>, StoreError> {
    let found = app.store.call(ListBudgets { tenant: tenant.clone() }).await?;
    let figures = found.iter().filter_map(|view| {
        let usage = app.stages.budgets.current(view).ok()?;
        let limit = usage.state.map(|state| state.limit);
        Some(BudgetFigures {
            tenant: tenant.clone(),
            budget: view.budget.name.clone(),
            total: usage.total,
            limit,
            overdrafts: view.budget.overdrafts,
            warnings: view.budget.warnings,
        })
    });
    Ok(figures.collect())
}

pub(super) async fn tenants(app: &Shared) -> Result<Vec<TenantId>, StoreError> {
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
            let answer = metrics(Scraper, State(app.clone())).await;
            let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            String::from_utf8(body.to_vec()).unwrap()
        };
        assert!(scrape().await.contains("\nlock_busy_retry_count 0\n"));
        let tally = &app.stages.contention.tally;
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
        drop(metrics(Scraper, State(app.clone())).await);
        assert!(app.metrics.render().contains(series));
    }
}
