//! `interlock limits`: show and set the limits of a tenant.

use clap::{Args, Subcommand};
use interlock_api::limits::{
    ConfigData, ConfigQuery, ConfigRequest, ConfigScope, EffectiveConfigQuery, LimitsData,
};
use interlock_model::TenantId;
use interlock_model::limit::{BYTES_BOUNDS, QUOTA_BOUNDS, RUNS_MAX_BOUND};

use super::Session;
use crate::exit::Result;
use crate::output::{fields, or_dash};

#[derive(Debug, Subcommand)]
pub(crate) enum LimitsCommand {
    /// Show the limits in force for a tenant
    Get(LimitsScope),
    /// Set limits; limits that are not named stay as they are
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
    /// Let one turn of a run render at most BYTES
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(BYTES_BOUNDS.0..=BYTES_BOUNDS.1))]
    max_turn_bytes: Option<u64>,
    /// Let one run hold at most BYTES: inputs, outputs and timeline
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(BYTES_BOUNDS.0..=BYTES_BOUNDS.1))]
    max_run_bytes: Option<u64>,
    /// Let a tenant use at most N workflow ids; those of deleted workflows count
    #[arg(long, value_name = "N", value_parser = quota())]
    max_workflows: Option<u32>,
    /// Let one workflow have at most N versions
    #[arg(long, value_name = "N", value_parser = quota())]
    max_workflow_versions: Option<u32>,
    /// Let a tenant have at most N workers on HTTP
    #[arg(long, value_name = "N", value_parser = quota())]
    max_workers: Option<u32>,
    /// Let the installation have at most N tenants; with --system
    #[arg(long, value_name = "N", value_parser = quota(), requires = "system")]
    max_tenants: Option<u32>,
}

fn quota() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(QUOTA_BOUNDS.0)..=i64::from(QUOTA_BOUNDS.1))
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
            max_turn_bytes: self.max_turn_bytes.or(written.max_turn_bytes),
            max_run_bytes: self.max_run_bytes.or(written.max_run_bytes),
            max_workflows: self.max_workflows.or(written.max_workflows),
            max_workflow_versions: self.max_workflow_versions.or(written.max_workflow_versions),
            max_workers: self.max_workers.or(written.max_workers),
            max_tenants: self.max_tenants.or(written.max_tenants),
        }
    }
}

fn describe(data: &ConfigData) -> String {
    fields(&[
        ("max_concurrent_runs", Some(or_dash(data.limits.max_concurrent_runs.as_ref()))),
        ("idempotency_retention_sec", Some(or_dash(data.limits.idempotency_retention_sec.as_ref()))),
        ("max_turn_bytes", Some(or_dash(data.limits.max_turn_bytes.as_ref()))),
        ("max_run_bytes", Some(or_dash(data.limits.max_run_bytes.as_ref()))),
        ("max_workflows", Some(or_dash(data.limits.max_workflows.as_ref()))),
        ("max_workflow_versions", Some(or_dash(data.limits.max_workflow_versions.as_ref()))),
        ("max_workers", Some(or_dash(data.limits.max_workers.as_ref()))),
        ("max_tenants", data.limits.max_tenants.as_ref().map(ToString::to_string)),
    ])
}
