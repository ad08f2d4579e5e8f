//! API keys: created, listed, rotated, revoked. For admins.

use std::time::Duration;

use interlock_api::keys::{
    CreateKeyRequest, CreatedKey, KeyRole, KeyView, RotateKeyRequest, WorkflowPattern,
};
use interlock_backend::keys::{ApiKey, KeyScope};
use interlock_backend::verbs::ListApiKeys;
use interlock_control::api_keys::KeyTerms;
use interlock_model::ApiKeyId;

use super::{
    Answer, Caller, Json, Named, NoAnswer, OptionalPayload, Page, PageQuery, Parameters, Payload, Permission,
    Refusal, StatusCode, bounded, endpoints, first_page, found, page_of,
};

const NAME_CHARS_MAX: usize = 256;

/// Ten years.
const EXPIRES_IN_SEC_MAX: u64 = 10 * 365 * 24 * 60 * 60;

/// Workflows that one key is limited to.
const WORKFLOWS_MAX: usize = 100;

/// How long an old key works beside its replacement, in seconds: by default, and at most.
const OVERLAP_SEC_DEFAULT: u64 = 60 * 60;
const OVERLAP_SEC_MAX: u64 = 30 * 24 * 60 * 60;

endpoints!("keys": create, list, rotate, revoke);

/// Creates a key. Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/api/v1/keys", request_body = CreateKeyRequest,
    responses((status = 201, body = CreatedKey),
    (status = 409, description = "The first key, one that outlives the caller's, or one too many (`conflict`)")))]
async fn create(
    caller: Caller,
    Payload(request): Payload<CreateKeyRequest>,
) -> Result<(StatusCode, Json<CreatedKey>), Refusal> {
    caller.may(Permission::Administer)?;
    let CreateKeyRequest { name, role, tenant, expires_in_sec, workflows } = request;
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
    check_workflows(role, &scope, workflows.as_deref())?;
    let terms = KeyTerms { name, role, scope, workflows, lifetime };
    let (created, key) = caller.app.keys.create(terms, caller.expires_at).await?;
    Ok((StatusCode::CREATED, Json(CreatedKey { view: view(&caller, created), key })))
}

fn check_workflows(
    role: KeyRole,
    scope: &KeyScope,
    workflows: Option<&[WorkflowPattern]>,
) -> Result<(), Refusal> {
    let Some(workflows) = workflows else { return Ok(()) };
    bounded("workflows", workflows.len() as u64, (1, WORKFLOWS_MAX as u64))?;
    if role == KeyRole::Worker {
        return Err(Refusal::invalid(
            "workflows: a worker claims jobs by topic, so its key cannot be limited",
        ));
    }
    if *scope == KeyScope::All {
        return Err(Refusal::invalid("workflows: they belong to a tenant; name it"));
    }
    Ok(())
}

fn view(caller: &Caller, key: ApiKey) -> KeyView {
    let expired = caller.app.keys.has_expired(&key);
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
        expired,
        workflows: key.workflows,
        replaced_by: key.replaced_by,
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
    Ok(page_of(first_page(keys, page.limit, place), |key| view(&caller, key)))
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

/// Replaces the key by a new one of the same name, role, tenant and workflows, which lives as long as the old one did. The
/// old one keeps working for the overlap; rotated again, at most the last two work.
#[utoipa::path(post, path = "/api/v1/keys/{id}/rotate", request_body = Option<RotateKeyRequest>,
    responses((status = 201, body = CreatedKey),
    (status = 409, description = "It was rotated before, has expired, or is one too many (`conflict`)")))]
async fn rotate(
    caller: Caller,
    Named(id): Named<ApiKeyId>,
    OptionalPayload(request): OptionalPayload<RotateKeyRequest>,
) -> Result<(StatusCode, Json<CreatedKey>), Refusal> {
    caller.may(Permission::Administer)?;
    let overlap = request.overlap_sec.unwrap_or(OVERLAP_SEC_DEFAULT);
    bounded("overlap_sec", overlap, (0, OVERLAP_SEC_MAX))?;
    check_covered(&caller, &id).await?;
    let rotated = caller.app.keys.rotate(&id, Duration::from_secs(overlap), caller.expires_at).await?;
    let (created, key) = rotated;
    Ok((StatusCode::CREATED, Json(CreatedKey { view: view(&caller, created), key })))
}

/// A key that the caller's own does not cover is not found.
async fn check_covered(caller: &Caller, id: &ApiKeyId) -> Result<(), Refusal> {
    let keys = caller.app.store.call(ListApiKeys).await?;
    found(keys.iter().find(|key| key.id == *id && covers(caller, key)), id).map(drop)
}

/// Revokes the key: here at once, on other replicas within a second.
#[utoipa::path(delete, path = "/api/v1/keys/{id}", responses((status = 204, description = "Revoked"),
    (status = 409, description = "The last admin key (`conflict`)")))]
async fn revoke(caller: Caller, Named(id): Named<ApiKeyId>) -> NoAnswer {
    caller.may(Permission::Administer)?;
    check_covered(&caller, &id).await?;
    caller.app.keys.revoke(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}
