//! Around every handler: counts its answers, and turns a panic into one.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};

use crate::error::Refusal;
use crate::metrics::RouteMetrics;

pub(crate) async fn observe(
    State(metrics): State<Arc<RouteMetrics>>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let response = AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|panic| {
        tracing::error!(reason = reason(&*panic), "handler panicked");
        Refusal::bug().into_response()
    });
    metrics.answered(response.status().as_u16(), began.elapsed());
    guarded(response)
}

/// What a browser must not do with answers of an API: guess their type, run them, show them in a frame, keep them, or pass
/// their address on.
fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn reason(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;
    use crate::metrics::Metrics;

    async fn broken() -> Response {
        panic!("a bug")
    }

    #[tokio::test]
    async fn a_panic_is_answered_with_a_problem_and_counted() {
        let metrics = Metrics::new(1);
        let layer = from_fn_with_state(metrics.route("GET", "/broken"), observe);
        let router = Router::new().route("/broken", get(broken).layer(layer));
        let request = Request::get("/broken").body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let counted = "http_requests_total{method=\"GET\",route=\"/broken\",status=\"500\"} 1";
        assert!(metrics.render().contains(counted));
    }
}
