//! `interlock status`: show server status.

use std::time::Duration;

use interlock_api::retry_policies::RetryPolicyView;
use interlock_api::status::{RolloutStatus, StatusView};

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
        ("uptime", Some(format!("{} s", uptime.as_secs()))),
        ("roles", Some(status.roles.join(", "))),
        ("backend", Some(format!("{} ({})", status.backend.kind, status.backend.durability))),
        ("admission", Some(status.strategies.admission.clone())),
        ("results", Some(status.strategies.run.clone())),
        ("retry policies", Some(retry_policies(status))),
        ("rollout", status.rollout.as_ref().map(rollout)),
        ("store commands", Some(status.store.commands_sent.to_string())),
        ("bus", Some(format!("{} ({bus})", status.bus.kind))),
        ("tenants", status.tenants.map(|tenants| tenants.to_string())),
    ])
}

fn retry_policies(status: &StatusView) -> String {
    let one = |policy: &RetryPolicyView| {
        let by = policy.by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
        format!("{} {} (version {}{by})", policy.scope.name(), policy.policy, policy.version)
    };
    status.retry_policies.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn rollout(rollout: &RolloutStatus) -> String {
    let RolloutStatus { id, share_percent, candidate, by, ends_at } = rollout;
    format!("{id}: {share_percent} % of the runs try {candidate} until {ends_at} (started by {by})")
}
