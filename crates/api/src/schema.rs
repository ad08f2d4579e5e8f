//! Schemas for the `OpenAPI` document that no type can derive, and names.

use interlock_model::lock::LockMode;
use interlock_model::run::RunStatus;
use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

/// The name of a value that is written as a plain string.
pub fn name<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        Ok(_) | Err(_) => unreachable!("only for values that serialize as strings"),
    }
}

/// The mode in a request, where it may be left out.
pub(crate) fn lock_mode_asked() -> Object {
    let default = LockMode::Exclusive.name();
    names(LockMode::ALL.map(LockMode::name)).default(Some(default.into())).build()
}

/// A run's status in the answer to its start, which may be a replay of a deleted run.
pub(crate) fn start_status() -> Object {
    names(RunStatus::ALL.map(RunStatus::name).into_iter().chain(["deleted"])).build()
}

fn names(values: impl IntoIterator<Item = &'static str>) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values))
}
