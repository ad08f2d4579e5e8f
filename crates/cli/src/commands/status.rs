//! `interlock status`: what the server says of itself.

use std::time::Duration;

use interlock_api::status::StatusView;

use super::Session;
use crate::exit::Result;
use crate::output::fields;

pub(super) async fn run(session: &Session) -> Result<()> {
    let status = session.client.status().await?;
    session.output.result(&status, |status| describe(status, session.client.gateway()))
}

fn describe(status: &StatusView, gateway: &str) -> String {
    let uptime = Duration::from_millis(status.uptime_ms);
    let bus = if status.bus.connected { "connected" } else { "not connected" };
    fields(&[
        ("gateway", Some(gateway.to_owned())),
        ("version", Some(status.version.clone())),
        ("instance", Some(status.instance_id.clone())),
        ("up for", Some(format!("{} s", uptime.as_secs()))),
        ("roles", Some(status.roles.join(", "))),
        ("backend", Some(format!("{} ({})", status.backend.kind, status.backend.durability))),
        ("admission", Some(status.strategies.admission.clone())),
        ("results", Some(status.strategies.run.clone())),
        ("store commands", Some(status.store.commands_sent.to_string())),
        ("bus", Some(format!("{} ({bus})", status.bus.kind))),
        ("tenants", status.tenants.map(|tenants| tenants.to_string())),
    ])
}
