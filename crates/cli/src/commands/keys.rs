//! `interlock keys`: create, list and revoke API keys.

use clap::{Args, Subcommand};
use interlock_api::Page;
use interlock_api::keys::{CreateKeyRequest, KeyRole, KeyView};
use interlock_model::TenantId;
use serde_json::json;

use super::{Session, pages};
use crate::arguments::ListFlags;
use crate::exit::Result;
use crate::output::{say, table};

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create an API key and print it; it is shown only once
    #[command(after_help = "Example: interlock keys create --name ci --role starter --for-tenant acme")]
    Create(KeyFlags),
    /// List API keys, without their secrets
    List(ListFlags),
    /// Revoke an API key
    Revoke {
        /// Id of the key, as `keys list` prints it
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct KeyFlags {
    /// Name that tells people who or what uses the key
    #[arg(long)]
    name: String,
    /// Role: admin, operator, starter, worker or viewer
    #[arg(long, value_parser = role)]
    role: KeyRole,
    /// Tenant of the key [default: all tenants, only with the role admin]
    #[arg(long, value_name = "TENANT")]
    for_tenant: Option<TenantId>,
}

pub(super) async fn run(command: KeysCommand, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match command {
        KeysCommand::Create(KeyFlags { name, role, for_tenant }) => {
            let created = client.create_key(&CreateKeyRequest { name, role, tenant: for_tenant }).await?;
            if !output.is_json() {
                say(&format!(
                    "key {} ({}) created; store it now, it is not shown again:",
                    created.id,
                    role.name()
                ));
            }
            output.result(&created, |created| created.key.clone())
        }
        KeysCommand::List(listing) => {
            let page = pages::collect(listing, async |query| client.keys(&query).await).await?;
            output.result(&page, overview)
        }
        KeysCommand::Revoke { id } => {
            client.revoke_key(&id).await?;
            output.done(&json!({"id": id, "revoked": true}), &format!("key {id} revoked"))
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

fn role(text: &str) -> std::result::Result<KeyRole, String> {
    let found = KeyRole::ALL.into_iter().find(|role| role.name() == text);
    found.ok_or_else(|| format!("expected one of: {}", KeyRole::ALL.map(KeyRole::name).join(", ")))
}
