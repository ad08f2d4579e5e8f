//! API keys.

use interlock_api::keys::{CreatedKey, KeyView};
use interlock_backend::keys::{ApiKey, KeyScope};
use interlock_model::TenantId;

fn tenant(scope: KeyScope) -> Option<TenantId> {
    match scope {
        KeyScope::Tenant(tenant) => Some(tenant),
        KeyScope::All => None,
    }
}

pub(crate) fn view(key: ApiKey) -> KeyView {
    KeyView {
        id: key.id,
        name: key.name,
        role: key.role,
        tenant: tenant(key.scope),
        created_at: key.created_at.into(),
    }
}

pub(crate) fn created(key: ApiKey, text: String) -> CreatedKey {
    CreatedKey { view: view(key), key: text }
}
