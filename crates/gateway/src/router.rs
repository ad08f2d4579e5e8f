//! Which path leads to which handler.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::{Method, Uri};
use interlock_api::Code;
use utoipa::openapi::path::ParameterIn;
use utoipa::openapi::{OpenApi, RefOr};

use crate::error::Refusal;
use crate::observe::observe;
use crate::openapi;
use crate::query::refuse_unknown;
use crate::state::App;

/// Declares the endpoints of a file, under the tag that they have in the `OpenAPI` document. A handler is served where its
/// `#[utoipa::path]` says, so that the router and the document cannot differ.
macro_rules! endpoints {
    ($tag:literal: $($handler:ident),+ $(,)?) => {
        pub(super) fn endpoints() -> crate::router::Endpoints {
            #[derive(utoipa::OpenApi)]
            #[openapi(paths($($handler),+))]
            struct Described;

            let described = <Described as utoipa::OpenApi>::openapi();
            crate::router::Endpoints::new($tag, described)$(.with(stringify!($handler), $handler))+
        }
    };
}

pub(crate) use endpoints;

/// Handlers, and the document that says where each is served.
pub(crate) struct Endpoints {
    pub tag: &'static str,
    pub document: OpenApi,
    pub list: Vec<Endpoint>,
}

pub(crate) struct Endpoint {
    pub method: Method,
    pub path: String,
    /// The names of its query parameters.
    pub query: Arc<[String]>,
    handler: MethodRouter<App>,
}

impl Endpoints {
    pub(crate) fn new(tag: &'static str, document: OpenApi) -> Self {
        Self { tag, document, list: Vec::new() }
    }

    pub(crate) fn with<H: Handler<T, App>, T: 'static>(mut self, name: &str, handler: H) -> Self {
        let (method, path, query) = self.place(name);
        let filter = MethodFilter::try_from(method.clone()).expect("axum knows every documented method");
        self.list.push(Endpoint { method, path, query, handler: on(filter, handler) });
        self
    }

    /// Where the document says that a handler is served, and its query parameters.
    fn place(&mut self, name: &str) -> (Method, String, Arc<[String]>) {
        let (path, method, operation) = openapi::operations(&mut self.document)
            .find(|(_, _, operation)| operation.operation_id.as_deref() == Some(name))
            .expect("the macro documents every handler that it adds");
        let parameters = operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
            RefOr::T(parameter) => Some(parameter),
            RefOr::Ref(_) => None,
        });
        let of_query = parameters.filter(|parameter| parameter.parameter_in == ParameterIn::Query);
        let query = of_query.map(|parameter| parameter.name.clone()).collect();
        (method, path.to_owned(), query)
    }
}

pub(crate) fn router(app: &App, endpoints: impl Iterator<Item = &'static Endpoint>) -> Router {
    let mut router = Router::new();
    for Endpoint { method, path, query, handler } in endpoints {
        let metrics = app.metrics.route(method.as_str(), path);
        let handler = handler.clone().route_layer(from_fn_with_state(query.clone(), refuse_unknown));
        router = router.route(path, handler.route_layer(from_fn_with_state(metrics, observe)));
    }
    let unmatched = || from_fn_with_state(app.metrics.route("other", "unmatched"), observe);
    let router = router
        .method_not_allowed_fallback(wrong_method.layer(unmatched()))
        .fallback(unknown_path.layer(unmatched()));
    router.with_state(app.clone())
}

async fn unknown_path(uri: Uri) -> Refusal {
    Refusal::not_found("path", uri.path())
}

async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    // Both may be as long as a header; the error must not be.
    let text: String = format!("{} does not take {method}", uri.path()).chars().take(300).collect();
    Refusal::new(Code::MethodNotAllowed, text)
}
