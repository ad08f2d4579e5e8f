//! API keys.

use interlock_api::keys::{CreatedKey, KeyView, Role};
use interlock_backend::keys::{self, ApiKey, KeyScope};
use interlock_model::TenantId;

pub(crate) fn role(role: keys::Role) -> Role {
    match role {
        keys::Role::Admin => Role::Admin,
        keys::Role::Operator => Role::Operator,
        keys::Role::Starter => Role::Starter,
        keys::Role::Worker => Role::Worker,
        keys::Role::Viewer => Role::Viewer,
    }
}

pub(crate) fn to_role(role: Role) -> keys::Role {
    match role {
        Role::Admin => keys::Role::Admin,
        Role::Operator => keys::Role::Operator,
        Role::Starter => keys::Role::Starter,
        Role::Worker => keys::Role::Worker,
        Role::Viewer => keys::Role::Viewer,
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
