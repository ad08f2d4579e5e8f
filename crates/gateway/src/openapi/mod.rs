//! The `OpenAPI` document, generated from the handlers.

mod answers;
mod bodies;
mod links;

use http::Method;
use interlock_api::Problem;
use interlock_model::contention::Scope;
use interlock_model::{ApiKeyId, BudgetName, JobId, LimitName, RolloutId, RunId, WorkerId, WorkflowId};
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{OpenApi, RefOr, Required, Schema};
use utoipa::{Modify, OpenApi as _, PartialSchema as _};

use crate::router::Endpoints;
use crate::routes;

/// The `OpenAPI` 3.1 document of every endpoint.
pub fn document() -> OpenApi {
    let mut document = Document::openapi();
    for Endpoints { tag, document: described, list: _ } in routes::all() {
        let mut described = described.clone();
        operations(&mut described).for_each(|(path, _, operation)| complete(path, operation, tag));
        document.merge(described);
    }
    document
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Interlock", description = "A control plane for runs of AI-agent workflows"),
    components(schemas(Problem)),
    security(("api_key" = []), ("bearer" = []), ()),
    modifiers(&Keys),
)]
struct Document;

/// How a caller authenticates.
struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut OpenApi) {
        let components = document.components.get_or_insert_default();
        let api_key = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("X-API-Key")));
        components.add_security_scheme("api_key", api_key);
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    }
}

/// The operations of a document, each with its path and method.
pub(crate) fn operations(document: &mut OpenApi) -> impl Iterator<Item = (&str, Method, &mut Operation)> {
    document.paths.paths.iter_mut().flat_map(|(path, item)| {
        [
            (Method::GET, &mut item.get),
            (Method::PUT, &mut item.put),
            (Method::POST, &mut item.post),
            (Method::DELETE, &mut item.delete),
        ]
        .into_iter()
        .filter_map(move |(method, operation)| Some((path.as_str(), method, operation.as_mut()?)))
    })
}

/// Adds what follows from the path, the tag and the status codes, so that no handler repeats it.
fn complete(path: &str, operation: &mut Operation, tag: &str) {
    // Handlers' names are unique only with their tag.
    let handler = operation.operation_id.take().unwrap_or_default();
    let id = format!("{tag}_{handler}").replace(' ', "_");
    operation.tags = Some(vec![tag.to_owned()]);
    add_path_parameters(path, operation);
    bodies::exclude_null(operation);
    answers::complete(path, operation);
    links::add(&id, operation);
    operation.operation_id = Some(id);
}

/// Every name in the path is a parameter, whose form follows from it. A handler documents those that need a description.
fn add_path_parameters(path: &str, operation: &mut Operation) {
    let mut parameters = operation.parameters.take().unwrap_or_default();
    for name in path.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
        let schema = Some(schema_of(path, name));
        match parameters.iter_mut().find(|known| matches!(known, RefOr::T(known) if known.name == name)) {
            Some(RefOr::T(known)) => known.schema = schema,
            Some(RefOr::Ref(_)) | None => {
                let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path);
                parameters.push(parameter.required(Required::True).schema(schema).build().into());
            }
        }
    }
    operation.parameters = Some(parameters).filter(|parameters| !parameters.is_empty());
}

/// The form of a name in a path.
fn schema_of(path: &str, name: &str) -> RefOr<Schema> {
    match (name, path.split('/').nth(3)) {
        // `id` in the middle of `/workflows/{workflow}/runs/{id}/cancel` is the run's.
        ("id", Some("workflows")) if path.contains("{workflow}") => RunId::schema(),
        ("workflow", _) | ("id", Some("workflows")) => WorkflowId::schema(),
        ("id", Some("workflow-runs")) => RunId::schema(),
        ("id", Some("keys")) => ApiKeyId::schema(),
        ("id", Some("rollouts")) => RolloutId::schema(),
        ("job_id", _) => JobId::schema(),
        ("worker", _) => WorkerId::schema(),
        ("scope", _) => Scope::schema(),
        ("name", Some("limits" | "system")) => LimitName::schema(),
        ("name", Some("budgets")) => BudgetName::schema(),
        _ => unreachable!("a test reads the whole document, and every name in a path has a form"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_document_describes_exactly_what_is_served() {
        let served: BTreeSet<_> = routes::served(&crate::Settings::default())
            .map(|endpoint| (endpoint.method.as_str().to_lowercase(), endpoint.path.clone()))
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

    /// A program that follows the document must not meet a code that it does not have.
    #[test]
    fn no_answer_is_left_open() {
        let document = serde_json::to_value(document()).unwrap();
        for (path, operation) in described(&document) {
            let answers = operation["responses"].as_object().unwrap();
            assert!(!answers.contains_key("default"), "{path}");
            for (status, answer) in answers {
                let is_problem = answer["content"]["application/problem+json"]["schema"]["$ref"]
                    == "#/components/schemas/Problem";
                assert_eq!(status.as_str() >= "400", is_problem, "{status} of {path}");
            }
        }
    }

    #[test]
    fn every_link_leads_to_an_operation_and_its_parameters() {
        let document = serde_json::to_value(document()).unwrap();
        let operations = described(&document);
        let mut count = 0;
        for (_, operation) in &operations {
            let answers = operation["responses"].as_object().unwrap().values();
            for link in
                answers.filter_map(|answer| answer["links"].as_object()).flat_map(|links| links.values())
            {
                count += 1;
                let target = operations.iter().find(|(_, other)| other["operationId"] == link["operationId"]);
                let (path, target) = target.unwrap_or_else(|| panic!("{link}"));
                for name in link["parameters"].as_object().into_iter().flat_map(|named| named.keys()) {
                    let known = target["parameters"].as_array().unwrap();
                    assert!(known.iter().any(|parameter| parameter["name"] == *name), "{name} of {path}");
                }
            }
        }
        assert_eq!(count, links::LINKS.len(), "a link from an operation that does not exist");
    }

    #[test]
    fn the_mode_of_a_lock_need_not_be_said() {
        let document = serde_json::to_value(document()).unwrap();
        let asked = &document["components"]["schemas"]["AcquireRequest"];
        assert_eq!(asked["properties"]["mode"]["default"], "exclusive");
        assert_eq!(asked["required"], json!(["resource", "owner", "ttl_ms"]));
    }
}
