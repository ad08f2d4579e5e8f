//! `interlock keys`: API keys.

use clap::{Args, Subcommand};
use interlock_api::Page;
use interlock_api::keys::{CreateKeyRequest, KeyView, Role};
use interlock_model::TenantId;
use serde_json::json;

use super::{Session, pages};
use crate::arguments::Listing;
use crate::exit::Result;
use crate::output::{say, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Make a key, and print it; it is shown this once
    #[command(after_help = "Example: interlock keys create --name ci --role starter --for-tenant acme")]
    Create(Create),
    /// The keys, without their secrets
    List(Listing),
    /// A key that is not to be used any more
    Revoke { id: String },
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// For people: who or what uses it
    #[arg(long)]
    name: String,
    /// admin, operator, starter, worker or viewer
    #[arg(long, value_parser = role)]
    role: Role,
    /// The tenant that it is for; all of them if absent, which only an admin's key may have
    #[arg(long, value_name = "TENANT")]
    for_tenant: Option<TenantId>,
}

pub(super) async fn run(keys: Keys, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match keys {
        Keys::Create(Create { name, role, for_tenant }) => {
            let created = client.create_key(&CreateKeyRequest { name, role, tenant: for_tenant }).await?;
            if !output.is_json() {
                say(&format!("key {} ({}); keep it, it is not shown again:", created.id, role.name()));
            }
            output.result(&created, |created| created.key.clone())
        }
        Keys::List(listing) => {
            let page = pages::collect(listing, async |query| client.keys(&query).await).await?;
            output.result(&page, overview)
        }
        Keys::Revoke { id } => {
            client.revoke_key(&id).await?;
            output.done(&json!({"id": id, "revoked": true}), &format!("key {id} is revoked"))
        }
    }
}

fn overview(page: &Page<KeyView>) -> String {
    let row = |key: &KeyView| {
        [
            key.id.to_string(),
            key.role.name().to_owned(),
            key.tenant.as_ref().map_or_else(|| "(all)".to_owned(), ToString::to_string),
            key.created_at.to_string(),
            key.name.clone(),
        ]
    };
    table(["ID", "ROLE", "TENANT", "CREATED", "NAME"], page.items.iter().map(row))
}

fn role(text: &str) -> std::result::Result<Role, String> {
    let found = Role::ALL.into_iter().find(|role| role.name() == text);
    found.ok_or_else(|| format!("it must be one of: {}", Role::ALL.map(Role::name).join(", ")))
}
