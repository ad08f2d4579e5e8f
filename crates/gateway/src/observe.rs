//! Around every handler: counts its answers, and turns a panic into one.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
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
    pub metrics: RouteMetrics,
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
    metrics: RouteMetrics,
}

impl<S> Service<Request> for Observed<S>
where
    S: Service<Request, Error = Infallible, Response: IntoResponse> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (mut inner, metrics) = (self.inner.clone(), self.metrics.clone());
        let began = Instant::now();
        Box::pin(async move {
            let answered = AssertUnwindSafe(async move { inner.call(request).await }).catch_unwind().await;
            let response = match answered {
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
