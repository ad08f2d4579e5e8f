//! Which path leads to which handler.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};
use http::{Method, Uri};
use interlock_api::Code;

use crate::error::Refusal;
use crate::observe::Observe;
use crate::routes;
use crate::state::App;

/// A router that remembers what it was given, so that the `OpenAPI` document can be held to it.
pub(crate) struct Routes {
    router: Router<App>,
    app: App,
    table: Vec<(&'static str, &'static str)>,
}

impl Routes {
    pub(crate) fn get<H: Handler<T, App>, T: 'static>(self, path: &'static str, handler: H) -> Self {
        self.add("GET", MethodFilter::GET, path, handler)
    }

    pub(crate) fn post<H: Handler<T, App>, T: 'static>(self, path: &'static str, handler: H) -> Self {
        self.add("POST", MethodFilter::POST, path, handler)
    }

    pub(crate) fn put<H: Handler<T, App>, T: 'static>(self, path: &'static str, handler: H) -> Self {
        self.add("PUT", MethodFilter::PUT, path, handler)
    }

    pub(crate) fn delete<H: Handler<T, App>, T: 'static>(self, path: &'static str, handler: H) -> Self {
        self.add("DELETE", MethodFilter::DELETE, path, handler)
    }

    fn add<H, T>(mut self, method: &'static str, filter: MethodFilter, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let observe = Observe::new(self.app.metrics.route(method, path));
        self.table.push((method, path));
        self.router = self.router.route(path, on(filter, handler).route_layer(observe));
        self
    }
}

fn all(app: &App) -> Routes {
    let routes = Routes { router: Router::new(), app: app.clone(), table: Vec::new() };
    let routes = routes::status::register_probes(routes);
    if !app.settings.serves_api {
        return routes;
    }
    [
        routes::starts::register,
        routes::runs::register,
        routes::history::register,
        routes::claims::register,
        routes::jobs::register,
        routes::workflows::register,
        routes::approvals::register,
        routes::dead_letters::register,
        routes::dispatch_policy::register,
        routes::doctor::register,
        routes::limits::register,
        routes::locks::register,
        routes::retry_policies::register,
        routes::rollouts::register,
        routes::workers::register,
        routes::keys::register,
        routes::status::register,
        routes::why::register,
    ]
    .into_iter()
    .fold(routes, |routes, register| register(routes))
}

pub(crate) fn router(app: &App) -> Router {
    let Routes { router, app, table: _ } = all(app);
    let unmatched = || Observe::new(app.metrics.route("other", "unmatched"));
    let router = router
        .method_not_allowed_fallback(wrong_method.layer(unmatched()))
        .fallback(unknown_path.layer(unmatched()));
    router.with_state(app)
}

async fn unknown_path(uri: Uri) -> Refusal {
    Refusal::not_found("path", uri.path())
}

async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    // Either may be as long as a header; the sentence about them must not be.
    let text: String = format!("{} does not take {method}", uri.path()).chars().take(300).collect();
    Refusal::new(Code::MethodNotAllowed, text)
}

/// Every method and path that is served.
#[cfg(test)]
pub(crate) fn table(app: &App) -> Vec<(&'static str, &'static str)> {
    all(app).table
}
