//! The handlers, one file per noun, each with the conversions between its wire types and the model.

mod admission;
mod approvals;
mod budgets;
mod claims;
mod dead_letters;
mod dispatch_policy;
mod doctor;
mod events;
mod history;
mod jobs;
pub(crate) mod keys;
mod limit_revisions;
mod limit_views;
mod limits;
mod locks;
mod named_limits;
mod probes;
mod retry_policies;
mod rollouts;
mod run_waits;
mod runs;
mod sent_events;
mod starts;
mod status;
mod system_limits;
mod why;
mod workers;
mod workflows;

use std::sync::LazyLock;

// What most handlers use.
use axum::Json;
use http::StatusCode;
use interlock_api::{Page, PageQuery};

use crate::auth::{Caller, Permission};
use crate::body::{Document, OptionalPayload, Payload};
use crate::bounds::{bounded, bounded_text};
use crate::cursor;
use crate::error::Refusal;
use crate::path::{Named, found};
use crate::query::Parameters;
use crate::router::{Endpoint, Endpoints, endpoints};
use crate::settings::Settings;
use crate::state::{App, Shared};

/// Most handlers answer 200 with a body, or 204 without one.
type Answer<T> = Result<Json<T>, Refusal>;
type NoAnswer = Result<StatusCode, Refusal>;

/// The probes come first: every process serves them, whatever its roles.
static ENDPOINTS: LazyLock<Vec<Endpoints>> = LazyLock::new(|| {
    vec![
        probes::endpoints(),
        starts::endpoints(),
        runs::endpoints(),
        history::endpoints(),
        events::endpoints(),
        sent_events::endpoints(),
        claims::endpoints(),
        jobs::endpoints(),
        workflows::endpoints(),
        approvals::endpoints(),
        dead_letters::endpoints(),
        dispatch_policy::endpoints(),
        doctor::endpoints(),
        limits::endpoints(),
        named_limits::endpoints(),
        system_limits::endpoints(),
        budgets::endpoints(),
        locks::endpoints(),
        retry_policies::endpoints(),
        rollouts::endpoints(),
        workers::endpoints(),
        keys::endpoints(),
        status::endpoints(),
        why::endpoints(),
    ]
});

pub(crate) fn all() -> &'static [Endpoints] {
    &ENDPOINTS
}

/// What is served at the main address.
pub(crate) fn served(settings: &Settings) -> impl Iterator<Item = &'static Endpoint> {
    let count = if settings.serves_api { ENDPOINTS.len() } else { 1 };
    let served = ENDPOINTS[..count].iter().flat_map(|endpoints| &endpoints.list);
    let has_metrics = settings.metrics_listen.is_none();
    served.filter(move |endpoint| has_metrics || endpoint.path != probes::METRICS)
}

/// What is served at the metrics' own address.
pub(crate) fn probes() -> impl Iterator<Item = &'static Endpoint> {
    ENDPOINTS[0].list.iter()
}

/// A page of the store as the client sees it.
fn page_of<T, U>(page: interlock_backend::Page<T>, view: impl FnMut(T) -> U) -> Json<Page<U>> {
    let page = page.map(view);
    Json(Page::new(page.items, page.next.as_deref().map(cursor::encode)))
}

/// The first items as a page. `place` is the cursor behind an item.
fn first_page<T>(
    mut items: Vec<T>,
    limit: usize,
    place: impl Fn(&T) -> String,
) -> interlock_backend::Page<T> {
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(place);
    interlock_backend::Page { items, next }
}
