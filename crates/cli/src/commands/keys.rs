//! `interlock keys`: create, list, rotate and revoke API keys.

use clap::{Args, Subcommand};
use interlock_api::PageQuery;
use interlock_api::keys::{
    CreateKeyRequest, CreatedKey, KeyRole, KeyView, RotateKeyRequest, WorkflowPattern,
};
use interlock_api::page::LIMIT_MAX;
use interlock_model::{ApiKeyId, TenantId};
use serde_json::json;

use super::Session;
use super::durations::milliseconds;
use crate::arguments::{IdArgument, ListFlags, one_of};
use crate::exit::{Failure, Result};
use crate::output::{Column, say};

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create an API key and print it; it is shown only once
    #[command(after_help = "Example: interlock keys create --name ci --role starter --for-tenant acme")]
    Create(KeyFlags),
    /// List API keys, without their secrets
    List(ListFlags),
    /// Replace an API key by a new one with the same name, role, tenant and workflows
    #[command(after_help = "Example: interlock keys rotate ci --overlap 24h")]
    Rotate(RotateFlags),
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
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    expires: Option<u64>,
    /// Workflows that the key is limited to, such as build,deploy-* [default: all]
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    workflows: Option<Vec<WorkflowPattern>>,
}

#[derive(Debug, Args)]
pub(crate) struct RotateFlags {
    /// Name or id of the key
    #[arg(value_name = "NAME")]
    key: String,
    /// How long the old key keeps working, such as 0s or 24h
    #[arg(long, value_name = "DURATION", value_parser = milliseconds, default_value = "1h")]
    overlap: u64,
}

/// Zero would make a key that never works.
fn lifetime(text: &str) -> std::result::Result<u64, String> {
    match milliseconds(text)? {
        0 => Err("a key works for at least a second".to_owned()),
        millis => Ok(millis),
    }
}

pub(super) async fn run(command: KeysCommand, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match command {
        KeysCommand::Create(KeyFlags { name, role, for_tenant, expires, workflows }) => {
            let expires_in_sec = expires.map(|millis| millis.div_ceil(1_000));
            let request = CreateKeyRequest { name, role, tenant: for_tenant, expires_in_sec, workflows };
            show_created(session, &client.create_key(&request).await?)
        }
        KeysCommand::List(listing) => {
            session.list(listing, &COLUMNS, async |page| client.keys(&page).await).await
        }
        KeysCommand::Rotate(RotateFlags { key, overlap }) => {
            let id = key_id(session, &key).await?;
            let request = RotateKeyRequest { overlap_sec: Some(overlap.div_ceil(1_000)) };
            show_created(session, &client.rotate_key(id.as_str(), &request).await?)
        }
        KeysCommand::Revoke(IdArgument { id }) => {
            client.revoke_key(&id).await?;
            output.done(&json!({"id": id, "revoked": true}), &format!("key {id} revoked"))
        }
    }
}

fn show_created(session: &Session, created: &CreatedKey) -> Result<()> {
    if !session.output.is_json() {
        let (id, role) = (&created.view.id, created.view.role.name());
        say(&format!("key {id} ({role}) created; store it now, it is not shown again:"));
    }
    session.output.result(created, |created| created.key.clone())
}

/// The key of this id or name that was not rotated before. Names need not be unique.
async fn key_id(session: &Session, wanted: &str) -> Result<ApiKeyId> {
    let mut found = Vec::new();
    let mut page = PageQuery { limit: Some(LIMIT_MAX), cursor: None };
    loop {
        let listed = session.client.keys(&page).await?;
        let is_wanted = |key: &KeyView| {
            key.id.as_str() == wanted || (key.name == wanted && key.replaced_by.is_none() && !key.expired)
        };
        found.extend(listed.items.into_iter().filter(is_wanted).map(|key| key.id));
        page.cursor = listed.next_cursor;
        if page.cursor.is_none() {
            break;
        }
    }
    match found.as_slice() {
        [id] => Ok(id.clone()),
        [] => Err(Failure::Usage(format!("There is no key {wanted:?} to rotate: see `interlock keys list`"))),
        several => {
            let ids: Vec<_> = several.iter().map(ToString::to_string).collect();
            Err(Failure::Usage(format!(
                "Several keys are named {wanted:?}; give one by its id: {}",
                ids.join(", ")
            )))
        }
    }
}

const COLUMNS: [Column<KeyView>; 7] = [
    ("ID", |key| key.id.to_string()),
    ("ROLE", |key| key.role.name().to_owned()),
    ("TENANT", |key| key.tenant.as_ref().map_or_else(|| "(all)".to_owned(), ToString::to_string)),
    ("WORKFLOWS", workflows),
    ("CREATED", |key| key.created_at.to_string()),
    ("EXPIRES", expiry),
    ("NAME", |key| key.name.clone()),
];

fn workflows(key: &KeyView) -> String {
    let Some(workflows) = &key.workflows else { return "(all)".to_owned() };
    workflows.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn expiry(key: &KeyView) -> String {
    match key.expires_at {
        None => "never".to_owned(),
        Some(at) if key.expired => format!("{at} (expired)"),
        Some(at) => at.to_string(),
    }
}
