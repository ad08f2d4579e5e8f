//! `interlock keys`: create, list and revoke API keys.

use clap::{Args, Subcommand};
use interlock_api::keys::{CreateKeyRequest, KeyRole, KeyView};
use interlock_model::TenantId;
use serde_json::json;

use super::Session;
use super::durations::milliseconds;
use crate::arguments::{IdArgument, ListFlags, one_of};
use crate::exit::Result;
use crate::output::{Column, say};

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create an API key and print it; it is shown only once
    #[command(after_help = "Example: interlock keys create --name ci --role starter --for-tenant acme")]
    Create(KeyFlags),
    /// List API keys, without their secrets
    List(ListFlags),
    /// Revoke an API key; the last admin key that does not expire cannot be revoked
    Revoke(IdArgument),
}

#[derive(Debug, Args)]
pub(crate) struct KeyFlags {
    /// Name that tells people who or what uses the key
    #[arg(long)]
    name: String,
    /// What the key allows
    #[arg(long, value_parser = one_of(KeyRole::ALL, KeyRole::name))]
    role: KeyRole,
    /// Tenant of the key [default: all tenants, only with the role admin]
    #[arg(long, value_name = "TENANT")]
    for_tenant: Option<TenantId>,
    /// How long the key works, such as 12h or 90d [default: for ever]
    #[arg(long, value_name = "DURATION", value_parser = milliseconds)]
    expires: Option<u64>,
}

pub(super) async fn run(command: KeysCommand, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match command {
        KeysCommand::Create(KeyFlags { name, role, for_tenant, expires }) => {
            let expires_in_sec = expires.map(|millis| millis.div_ceil(1_000));
            let request = CreateKeyRequest { name, role, tenant: for_tenant, expires_in_sec };
            let created = client.create_key(&request).await?;
            if !output.is_json() {
                let (id, role) = (&created.view.id, role.name());
                say(&format!("key {id} ({role}) created; store it now, it is not shown again:"));
            }
            output.result(&created, |created| created.key.clone())
        }
        KeysCommand::List(listing) => {
            session.list(listing, &COLUMNS, async |page| client.keys(&page).await).await
        }
        KeysCommand::Revoke(IdArgument { id }) => {
            client.revoke_key(&id).await?;
            output.done(&json!({"id": id, "revoked": true}), &format!("key {id} revoked"))
        }
    }
}

const COLUMNS: [Column<KeyView>; 6] = [
    ("ID", |key| key.id.to_string()),
    ("ROLE", |key| key.role.name().to_owned()),
    ("TENANT", |key| key.tenant.as_ref().map_or_else(|| "(all)".to_owned(), ToString::to_string)),
    ("CREATED", |key| key.created_at.to_string()),
    ("EXPIRES", |key| key.expires_at.map_or_else(|| "never".to_owned(), |at| at.to_string())),
    ("NAME", |key| key.name.clone()),
];
