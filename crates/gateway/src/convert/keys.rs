//! API keys.

use interlock_api::keys::{CreatedKey, KeyRole, KeyView};
use interlock_backend::keys::{self, ApiKey, KeyScope};
use interlock_model::TenantId;

pub(crate) fn role(role: keys::Role) -> KeyRole {
    match role {
        keys::Role::Admin => KeyRole::Admin,
        keys::Role::Operator => KeyRole::Operator,
        keys::Role::Starter => KeyRole::Starter,
        keys::Role::Worker => KeyRole::Worker,
        keys::Role::Viewer => KeyRole::Viewer,
    }
}

pub(crate) fn to_role(role: KeyRole) -> keys::Role {
    match role {
        KeyRole::Admin => keys::Role::Admin,
        KeyRole::Operator => keys::Role::Operator,
        KeyRole::Starter => keys::Role::Starter,
        KeyRole::Worker => keys::Role::Worker,
        KeyRole::Viewer => keys::Role::Viewer,
    }
}

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
        role: role(key.role),
        tenant: tenant(key.scope),
        created_at: key.created_at.into(),
    }
}

pub(crate) fn created(key: ApiKey, text: String) -> CreatedKey {
    let KeyView { id, name, role, tenant, created_at } = view(key);
    CreatedKey { id, name, role, tenant, key: text, created_at }
}
