//! Which status codes an operation can answer with. Those of its own a handler documents; the others follow from what every
//! request passes: its key, its path, its body, the store.

use http::StatusCode;
use interlock_api::problem::MEDIA_TYPE;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response};

/// What every operation can answer that needs a key.
const ALWAYS: [(u16, &str); 5] = [
    (400, "The request is not valid (`invalid_request`)"),
    (401, "No API key, or not a valid one (`unauthorized`)"),
    (403, "The key may not do that, or not for this tenant (`forbidden`)"),
    (500, "A bug of the server (`internal_error`)"),
    (
        503,
        "Not done (`gate_unavailable`, `storage_full`), or not known whether it is done (`outcome_unknown`)",
    ),
];

/// For what the path names.
const NAMED: (u16, &str) = (404, "It does not exist, or belongs to another tenant (`not_found`)");

/// With a body.
const BODY: [(u16, &str); 3] = [
    (408, "The body did not arrive in time (`request_timeout`)"),
    (413, "The body is too large (`payload_too_large`)"),
    (415, "The body is not JSON (`unsupported_media_type`)"),
];

/// A worker exists from the first use of its name.
const NAMES_NOTHING: &str = "/api/v1/workers/{worker}/claim";

const EVENT_STREAM: &str = "text/event-stream";

pub(super) fn complete(path: &str, operation: &mut Operation) {
    let mut refusals = Vec::new();
    // Without a key there is nothing to refuse.
    if operation.security.is_none() {
        refusals.extend(ALWAYS);
        if path.contains('{') && path != NAMES_NOTHING {
            refusals.push(NAMED);
        }
        if operation.request_body.is_some() {
            refusals.extend(BODY);
        }
    }
    let responses = &mut operation.responses.responses;
    for (status, description) in refusals {
        let response = responses.entry(status.to_string()).or_insert_with(|| Response::new("").into());
        if let RefOr::T(response) = response
            && response.description.is_empty()
        {
            description.clone_into(&mut response.description);
        }
    }
    for (status, response) in responses {
        let (RefOr::T(response), Ok(status)) = (response, status.parse::<StatusCode>()) else { continue };
        if response.description.is_empty() {
            status.canonical_reason().unwrap_or_default().clone_into(&mut response.description);
        }
        // A stream of events is no JSON: a schema would be taken for that of the whole event.
        if let Some(stream) = response.content.get_mut(EVENT_STREAM) {
            *stream = ContentBuilder::new().build().into();
        }
        if status.is_client_error() || status.is_server_error() {
            let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
            response.content.insert(MEDIA_TYPE.to_owned(), problem.into());
        }
    }
}
