//! Named limits of the system: they apply to every tenant separately.

use interlock_api::named_limits::{PauseRequest, SystemLimitView};

use super::super::Session;
use super::named::{self, NamedChange};
use crate::arguments::ListFlags;
use crate::exit::Result;
use crate::output::{Column, fields, or_dash, pretty};

pub(super) async fn set(name: &str, change: NamedChange, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    let before = async || client.system_limit(name).await.map(|view| (view.document, view.revision));
    let (document, revision) = named::changed(change, before).await?;
    let saved = client.save_system_limit(name, &document, revision).await?;
    output.result(&saved, |saved| {
        let SystemLimitView { name_in_tenants, document, .. } = saved;
        format!("limit {name_in_tenants} in force in every tenant:\n{}", pretty(document))
    })
}

pub(super) async fn list(listing: ListFlags, session: &Session) -> Result<()> {
    session.list(listing, &COLUMNS, async |page| session.client.system_limits(&page).await).await
}

pub(super) async fn show(name: &str, session: &Session) -> Result<()> {
    session.output.result(&session.client.system_limit(name).await?, describe)
}

pub(super) async fn delete(name: &str, session: &Session) -> Result<()> {
    session.client.delete_system_limit(name).await?;
    let value = serde_json::json!({"name": name, "scope": "system", "deleted": true});
    session.output.done(&value, &format!("limit {name} of the system deleted"))
}

pub(super) async fn pause(name: &str, request: PauseRequest, session: &Session) -> Result<()> {
    session.output.result(&session.client.pause_system_limit(name, &request).await?, describe)
}

pub(super) async fn resume(name: &str, session: &Session) -> Result<()> {
    session.output.result(&session.client.resume_system_limit(name).await?, describe)
}

const COLUMNS: [Column<SystemLimitView>; 5] = [
    ("LIMIT", |limit| limit.name.to_string()),
    ("IN TENANTS", |limit| limit.name_in_tenants.to_string()),
    ("ON FULL", |limit| limit.document.on_full.name().to_owned()),
    ("KEY", |limit| or_dash(limit.document.key.as_ref())),
    ("PAUSED BY", |limit| or_dash(limit.paused.as_ref().map(|pause| &pause.by))),
];

fn describe(limit: &SystemLimitView) -> String {
    let head = fields(&[
        ("limit", Some(limit.name.to_string())),
        ("in tenants", Some(limit.name_in_tenants.to_string())),
        ("paused", limit.paused.as_ref().map(named::paused)),
        ("revision", Some(limit.revision.to_string())),
    ]);
    format!("{head}\n\n{}", pretty(&limit.document))
}
