//! API keys: created, listed, revoked. For admins.

use std::time::Duration;

use interlock_api::keys::{CreateKeyRequest, CreatedKey, KeyRole, KeyView};
use interlock_backend::keys::{ApiKey, KeyScope};
use interlock_backend::verbs::ListApiKeys;
use interlock_model::ApiKeyId;

use super::{
    Answer, Caller, Json, Named, NoAnswer, Page, PageQuery, Parameters, Payload, Permission, Refusal,
    StatusCode, endpoints, first_page, found, page_of,
};

const NAME_CHARS_MAX: usize = 256;

/// Ten years.
const EXPIRES_IN_SEC_MAX: u64 = 10 * 365 * 24 * 60 * 60;

endpoints!("keys": create, list, revoke);

/// Creates a key. Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/api/v1/keys", request_body = CreateKeyRequest,
    responses((status = 201, body = CreatedKey)))]
async fn create(
    caller: Caller,
    Payload(request): Payload<CreateKeyRequest>,
) -> Result<(StatusCode, Json<CreatedKey>), Refusal> {
    caller.may(Permission::Administer)?;
    let CreateKeyRequest { name, role, tenant, expires_in_sec } = request;
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
    let lifetime = match expires_in_sec {
        None => None,
        Some(seconds) if (1..=EXPIRES_IN_SEC_MAX).contains(&seconds) => Some(Duration::from_secs(seconds)),
        Some(_) => return Err(Refusal::invalid(format!("expires_in_sec: 1 to {EXPIRES_IN_SEC_MAX}"))),
    };
    let (created, key) = caller.app.keys.create(&name, role, scope, (lifetime, caller.expires_at)).await?;
    Ok((StatusCode::CREATED, Json(CreatedKey { view: view(created), key })))
}

fn view(key: ApiKey) -> KeyView {
    let tenant = match key.scope {
        KeyScope::Tenant(tenant) => Some(tenant),
        KeyScope::All => None,
    };
    KeyView {
        id: key.id,
        name: key.name,
        role: key.role,
        tenant,
        created_at: key.created_at.into(),
        expires_at: key.expires_at.map(Into::into),
    }
}

/// Keys that the caller's own covers, newest first.
#[utoipa::path(get, path = "/api/v1/keys", params(PageQuery), responses((status = 200, body = Page<KeyView>)))]
async fn list(caller: Caller, parameters: Parameters) -> Answer<Page<KeyView>> {
    caller.may(Permission::Administer)?;
    let page = parameters.page()?;
    let mut keys = caller.app.store.call(ListApiKeys).await?;
    keys.retain(|key| covers(&caller, key));
    keys.sort_by_key(|key| std::cmp::Reverse(place(key)));
    if let Some(after) = &page.after {
        keys.retain(|key| place(key) < *after);
    }
    Ok(page_of(first_page(keys, page.limit, place), view))
}

/// The place of a key in the list.
fn place(key: &ApiKey) -> String {
    format!("{:015}/{}", key.created_at.as_millis(), key.id)
}

fn covers(caller: &Caller, key: &ApiKey) -> bool {
    match &key.scope {
        KeyScope::All => caller.covers_all().is_ok(),
        KeyScope::Tenant(tenant) => caller.covers(tenant).is_ok(),
    }
}

/// Revokes the key: here at once, on other replicas within a second.
#[utoipa::path(delete, path = "/api/v1/keys/{id}", responses((status = 204, description = "Revoked")))]
async fn revoke(caller: Caller, Named(id): Named<ApiKeyId>) -> NoAnswer {
    caller.may(Permission::Administer)?;
    let keys = caller.app.store.call(ListApiKeys).await?;
    found(keys.iter().find(|key| key.id == id && covers(&caller, key)), &id)?;
    caller.app.keys.revoke(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}
