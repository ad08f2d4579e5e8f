//! Around every handler: counts its answers, and turns a panic into one.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tower::{Layer, Service};

use crate::error::Refusal;
use crate::metrics::RouteMetrics;

#[derive(Debug, Clone)]
pub(crate) struct Observe {
    metrics: Arc<RouteMetrics>,
}

impl Observe {
    pub(crate) fn new(metrics: RouteMetrics) -> Self {
        Self { metrics: Arc::new(metrics) }
    }
}

impl<S> Layer<S> for Observe {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed { inner, metrics: self.metrics.clone() }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Observed<S> {
    inner: S,
    metrics: Arc<RouteMetrics>,
}

impl<S> Service<Request> for Observed<S>
where
    S: Service<Request, Error = Infallible, Response: IntoResponse>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let began = Instant::now();
        let metrics = self.metrics.clone();
        let answer = AssertUnwindSafe(self.inner.call(request)).catch_unwind();
        Box::pin(async move {
            let response = match answer.await {
                Ok(Ok(response)) => response.into_response(),
                Err(panic) => {
                    tracing::error!(reason = reason(&*panic), "a handler panicked");
                    Refusal::bug().into_response()
                }
            };
            metrics.answered(response.status().as_u16(), began.elapsed());
            Ok(response)
        })
    }
}

fn reason(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
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
        let observe = Observe::new(metrics.route("GET", "/broken"));
        let router = Router::new().route("/broken", get(broken).layer(observe));
        let request = Request::get("/broken").body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let counted = "http_requests_total{method=\"GET\",route=\"/broken\",status=\"500\"} 1";
        assert!(metrics.render().contains(counted));
    }
}
