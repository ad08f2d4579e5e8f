//! What a request may send as its body: a JSON object, or nothing where the body is optional.

use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};

/// The type of an optional body is an `Option`, which is documented as allowing `null`. The server rejects it: a body is an
/// object, and none is none.
pub(super) fn exclude_null(operation: &mut Operation) {
    let Some(RefOr::T(body)) = &mut operation.request_body else { return };
    for content in body.content.values_mut() {
        if let RefOr::T(content) = content {
            content.schema = content.schema.take().map(without_null);
        }
    }
}

fn without_null(schema: RefOr<Schema>) -> RefOr<Schema> {
    match schema {
        RefOr::T(Schema::OneOf(mut choice)) => {
            choice.items.retain(|item| !is_null(item));
            match choice.items.len() {
                1 => choice.items.remove(0),
                _ => Schema::OneOf(choice).into(),
            }
        }
        RefOr::T(Schema::Object(mut object)) => {
            if matches!(&object.schema_type, SchemaType::Array(types) if types.contains(&Type::Null)) {
                object.schema_type = Type::Object.into();
            }
            Schema::Object(object).into()
        }
        other @ (RefOr::Ref(_) | RefOr::T(_)) => other,
    }
}

fn is_null(schema: &RefOr<Schema>) -> bool {
    matches!(schema, RefOr::T(Schema::Object(object)) if object.schema_type == SchemaType::Type(Type::Null))
}
