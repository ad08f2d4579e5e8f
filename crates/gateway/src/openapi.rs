//! The description of all of it, generated from the handlers.

use std::collections::BTreeMap;

use http::StatusCode;
use interlock_api::Problem;
use interlock_api::problem::MEDIA_TYPE;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, Modify, OpenApi};

use crate::routes::{
    approvals, claims, dead_letters, dispatch_policy, doctor, events, history, jobs, keys, limits, locks,
    retry_policies, rollouts, runs, starts, status, why, workers, workflows,
};

/// The `OpenAPI` 3.1 document of every endpoint.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

#[derive(OpenApi)]
#[openapi(
    info(title = "Interlock", description = "A control plane for runs of AI-agent workflows"),
    paths(
        starts::start,
        starts::rerun,
        runs::list,
        runs::get,
        runs::delete,
        runs::cancel,
        runs::cancel_of_workflow,
        history::timeline,
        events::stream,
        claims::claim,
        claims::heartbeat,
        claims::progress,
        claims::complete,
        claims::fail,
        jobs::list,
        jobs::get,
        jobs::cancel,
        workflows::create,
        workflows::list,
        workflows::get,
        workflows::delete,
        approvals::list,
        approvals::approve,
        approvals::reject,
        dead_letters::list,
        dead_letters::get,
        dead_letters::delete,
        dispatch_policy::show,
        dispatch_policy::check,
        dead_letters::retry,
        dead_letters::retry_many,
        dead_letters::delete_many,
        doctor::examine,
        doctor::repair,
        limits::put,
        limits::get,
        limits::effective,
        locks::acquire,
        locks::renew,
        locks::release,
        locks::force_release,
        locks::list,
        locks::history,
        locks::inventory,
        retry_policies::list,
        retry_policies::get,
        retry_policies::set,
        retry_policies::roll_back,
        rollouts::start,
        rollouts::list,
        rollouts::get,
        rollouts::promote,
        rollouts::abort,
        workers::list,
        workers::get,
        workers::drain,
        keys::create,
        keys::list,
        keys::revoke,
        status::status,
        status::healthz,
        status::readyz,
        status::metrics,
        status::openapi_json,
        why::why,
    ),
    components(schemas(Problem)),
    security(("api_key" = []), ("bearer" = []), ()),
    modifiers(&Keys, &Names, &Descriptions),
)]
struct Document;

/// How a caller says who it is.
struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let api_key = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("X-API-Key")));
        components.add_security_scheme("api_key", api_key);
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    }
}

/// Every operation has a name of its own: the handlers' are unique only with their tag.
struct Names;

impl Modify for Names {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        for operation in operations(document) {
            let tag = operation.tags.iter().flatten().next();
            if let (Some(tag), Some(handler)) = (tag, &operation.operation_id) {
                operation.operation_id = Some(format!("{tag}_{handler}").replace(' ', "_"));
            }
        }
    }
}

/// Every answer has a description. Where the operation's own says it all, it is the status in words.
struct Descriptions;

impl Modify for Descriptions {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        for operation in operations(document) {
            for (status, response) in &mut operation.responses.responses {
                let RefOr::T(response) = response else { continue };
                let status = status.parse::<StatusCode>().ok();
                if let (true, Some(status)) = (response.description.is_empty(), status) {
                    status.canonical_reason().unwrap_or_default().clone_into(&mut response.description);
                }
            }
        }
    }
}

fn operations(document: &mut utoipa::openapi::OpenApi) -> impl Iterator<Item = &mut Operation> {
    document.paths.paths.values_mut().flat_map(|item| {
        [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten()
    })
}

/// What any endpoint may answer instead.
pub(crate) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let response = ResponseBuilder::new()
            .description("Refused: 400, 401, 403, 404, 409, 413, 415, 429, 500 or 503; `code` tells why")
            .content(MEDIA_TYPE, problem)
            .build();
        BTreeMap::from([("default".to_owned(), response.into())])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn what_is_described_is_what_is_served() {
        let served: BTreeSet<_> = crate::router::table(&crate::state::tests::app().await)
            .into_iter()
            .map(|(method, path)| (method.to_lowercase(), path.to_owned()))
            .collect();
        let document = serde_json::to_value(document()).unwrap();
        let described: BTreeSet<_> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, item)| {
                item.as_object().unwrap().keys().map(|method| (method.clone(), path.clone()))
            })
            .collect();
        assert_eq!(served, described);
        assert_eq!(document["openapi"], "3.1.0");
    }

    #[test]
    fn every_reference_in_the_description_leads_somewhere() {
        let text = serde_json::to_string(&document()).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }

    /// Every operation of the description, with its path.
    fn described(document: &Value) -> Vec<(&str, &Value)> {
        let mut operations = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            operations.extend(item.as_object().unwrap().values().map(|operation| (path.as_str(), operation)));
        }
        operations
    }

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let document = serde_json::to_value(document()).unwrap();
        let mut names = BTreeSet::new();
        for (path, operation) in described(&document) {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name), "{name} again at {path}");
            // Programs make function names of them.
            assert!(name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()), "{name}");
        }
        assert!(names.contains("locks_list") && names.contains("runs_start"), "{names:?}");
    }

    #[test]
    fn every_answer_is_described() {
        let document = serde_json::to_value(document()).unwrap();
        for (path, operation) in described(&document) {
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let description = answer["description"].as_str().unwrap_or_default();
                assert!(!description.is_empty(), "{status} of {path}");
            }
        }
    }

    #[test]
    fn the_mode_of_a_lock_need_not_be_said() {
        let document = serde_json::to_value(document()).unwrap();
        let asked = &document["components"]["schemas"]["AcquireRequest"];
        assert_eq!(asked["properties"]["mode"]["default"], "exclusive");
        assert_eq!(asked["required"], json!(["resource", "owner", "ttl_ms"]));
    }
}
