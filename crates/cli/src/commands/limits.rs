//! `interlock limits`: show and set the limits of a tenant.

use clap::{Args, Subcommand};
use interlock_api::limits::{
    ConfigData, ConfigQuery, ConfigRequest, ConfigScope, EffectiveConfigQuery, LimitsData,
};
use interlock_model::TenantId;
use interlock_model::limit::RUNS_MAX_BOUND;

use super::Session;
use crate::exit::Result;
use crate::output::{fields, or_dash};

#[derive(Debug, Subcommand)]
pub(crate) enum LimitsCommand {
    /// Show the limits in force for a tenant
    Get(LimitsScope),
    /// Set limits, effective at once; limits that are not named stay as they are
    #[command(after_help = "Example: interlock limits set --max-concurrent-runs 2 acme")]
    Set {
        #[command(flatten)]
        change: LimitsChange,
        #[command(flatten)]
        scope: LimitsScope,
    },
}

#[derive(Debug, Clone, Copy, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct LimitsChange {
    /// Allow at most N runs at once; 0 rejects all starts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(RUNS_MAX_BOUND)))]
    max_concurrent_runs: Option<u32>,
    /// Keep idempotency keys for SEC seconds
    #[arg(long, value_name = "SEC", value_parser = clap::value_parser!(u64).range(1..))]
    idempotency_retention_sec: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct LimitsScope {
    /// Tenant [default: your own]
    #[arg(value_name = "TENANT")]
    organisation: Option<TenantId>,
    /// Show or set the defaults of tenants without limits of their own
    #[arg(long, conflicts_with = "organisation")]
    system: bool,
}

pub(super) async fn run(command: LimitsCommand, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match command {
        LimitsCommand::Get(LimitsScope { system: true, .. }) => {
            let query = ConfigQuery { scope: ConfigScope::System, scope_id: None };
            output.result(&client.config(&query).await?, |view| describe(&view.data))
        }
        LimitsCommand::Get(LimitsScope { organisation, system: false }) => output.result(
            &client.effective_config(&EffectiveConfigQuery { org_id: organisation }).await?,
            |view| describe(&view.data),
        ),
        LimitsCommand::Set { change, scope } => {
            let (scope, scope_id) = if scope.system {
                (ConfigScope::System, None)
            } else {
                (ConfigScope::Org, scope.organisation.map(String::from).or(session.tenant.clone()))
            };
            // A write replaces all limits, so those that stay are read first.
            let query = ConfigQuery { scope, scope_id };
            let data = ConfigData { limits: change.over(client.config(&query).await?.data.limits) };
            let ConfigQuery { scope, scope_id } = query;
            let request = ConfigRequest { scope, scope_id, data };
            client.put_config(&request).await?;
            output.result(&request, |request| describe(&request.data))
        }
    }
}

impl LimitsChange {
    fn over(self, written: LimitsData) -> LimitsData {
        LimitsData {
            max_concurrent_runs: self.max_concurrent_runs.or(written.max_concurrent_runs),
            idempotency_retention_sec: self.idempotency_retention_sec.or(written.idempotency_retention_sec),
        }
    }
}

fn describe(data: &ConfigData) -> String {
    fields(&[
        ("max_concurrent_runs", Some(or_dash(data.limits.max_concurrent_runs.as_ref()))),
        ("idempotency_retention_sec", Some(or_dash(data.limits.idempotency_retention_sec.as_ref()))),
    ])
}
