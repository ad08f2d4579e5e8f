//! API keys: made, listed, revoked. For admins.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use interlock_api::Page;
use interlock_api::keys::{CreateKeyRequest, CreatedKey, KeyRole, KeyView};
use interlock_backend::keys::{ApiKey, KeyScope};
use interlock_backend::verbs::ListApiKeys;
use interlock_model::ApiKeyId;

use super::Answer;
use crate::auth::{Caller, Permission};
use crate::body::Payload;
use crate::convert;
use crate::error::Refusal;
use crate::openapi::Refusals;
use crate::path::Named;
use crate::query::Parameters;
use crate::router::Routes;
use crate::state::App;

const NAME_CHARS_MAX: usize = 256;

pub(crate) fn register(routes: Routes) -> Routes {
    routes.post("/api/v1/keys", create).get("/api/v1/keys", list).delete("/api/v1/keys/{id}", revoke)
}

/// Makes a key. Its text is in this answer and nowhere else.
#[utoipa::path(post, path = "/api/v1/keys", tag = "keys", request_body = CreateKeyRequest, responses(
    (status = 201, body = CreatedKey), Refusals))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Payload(asked): Payload<CreateKeyRequest>,
) -> Result<(StatusCode, Json<CreatedKey>), Refusal> {
    caller.may(Permission::Administer)?;
    let CreateKeyRequest { name, role, tenant } = asked;
    if !(1..=NAME_CHARS_MAX).contains(&name.chars().count()) || name.chars().any(char::is_control) {
        return Err(Refusal::invalid(format!(
            "name: 1 to {NAME_CHARS_MAX} characters, none of them control"
        )));
    }
    let scope = match tenant {
        Some(tenant) => {
            caller.covers(&tenant)?;
            KeyScope::Tenant(tenant)
        }
        None if role == KeyRole::Admin => {
            caller.covers_all()?;
            KeyScope::All
        }
        None => {
            let sentence = format!("tenant: a key with the role {} is for one tenant; name it", role.name());
            return Err(Refusal::invalid(sentence));
        }
    };
    let made = app.keys.create(&name, role, scope).await?;
    Ok((StatusCode::CREATED, Json(convert::keys::created(made.0, made.1))))
}

/// Keys that the caller's own covers, newest first.
#[utoipa::path(get, path = "/api/v1/keys", tag = "keys", params(interlock_api::PageQuery), responses(
    (status = 200, body = Page<KeyView>), Refusals))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    parameters: Parameters,
) -> Answer<Page<KeyView>> {
    caller.may(Permission::Administer)?;
    let page = parameters.page()?;
    let mut keys = app.store.call(ListApiKeys).await?;
    keys.retain(|key| covers(&caller, key));
    keys.sort_by_key(|key| std::cmp::Reverse(place(key)));
    if let Some(after) = &page.after {
        keys.retain(|key| place(key) < *after);
    }
    let has_more = keys.len() > page.limit;
    keys.truncate(page.limit);
    let next = keys.last().filter(|_| has_more).map(place);
    Ok(Json(convert::page(interlock_backend::Page { items: keys, next }, convert::keys::view)))
}

/// Where a key stands in the list.
fn place(key: &ApiKey) -> String {
    format!("{:015}/{}", key.created_at.as_millis(), key.id)
}

fn covers(caller: &Caller, key: &ApiKey) -> bool {
    match &key.scope {
        KeyScope::All => caller.covers_all().is_ok(),
        KeyScope::Tenant(tenant) => caller.covers(tenant).is_ok(),
    }
}

/// The key is no longer known, here at once and elsewhere within a second.
#[utoipa::path(delete, path = "/api/v1/keys/{id}", tag = "keys", params(("id" = String, Path)), responses(
    (status = 204, description = "Revoked"), Refusals))]
pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<ApiKeyId>,
) -> Result<StatusCode, Refusal> {
    caller.may(Permission::Administer)?;
    let keys = app.store.call(ListApiKeys).await?;
    if !keys.iter().any(|key| key.id == id && covers(&caller, key)) {
        return Err(Refusal::not_found("key", id.as_str()));
    }
    app.keys.revoke(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}
