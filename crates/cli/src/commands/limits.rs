//! `interlock limits`: how many runs a tenant may have at once.

use clap::{Args, Subcommand};
use interlock_api::limits::{ConfigData, ConfigQuery, ConfigRequest, ConfigScope, LimitsData};
use interlock_model::TenantId;
use interlock_model::limit::RUNS_MAX_BOUND;

use super::Session;
use crate::exit::{Failure, Result};
use crate::output::{fields, or_dash};

#[derive(Debug, Subcommand)]
pub(crate) enum Limits {
    /// What is in force for a tenant
    Get(Whose),
    /// Write down limits, in force at once; what is not named stays as it is
    #[command(after_help = "Example: interlock limits set --max-concurrent-runs 2 acme")]
    Set {
        #[command(flatten)]
        change: Change,
        #[command(flatten)]
        whose: Whose,
    },
}

#[derive(Debug, Clone, Copy, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Change {
    /// Runs that may be live at once; 0 admits none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(RUNS_MAX_BOUND)))]
    max_concurrent_runs: Option<u32>,
    /// How long an idempotency key is kept
    #[arg(long, value_name = "SEC", value_parser = clap::value_parser!(u64).range(1..))]
    idempotency_retention_sec: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Whose {
    /// The tenant; your own if absent
    #[arg(value_name = "TENANT")]
    organisation: Option<TenantId>,
    /// The default of all tenants that have no limit of their own
    #[arg(long, conflicts_with = "organisation")]
    system: bool,
}

pub(super) async fn run(limits: Limits, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match limits {
        Limits::Get(Whose { system: true, .. }) => {
            let query = ConfigQuery { scope: ConfigScope::System, scope_id: None };
            output.result(&client.config(&query).await?, |view| describe(&view.data))
        }
        Limits::Get(Whose { organisation, system: false }) => {
            output.result(&client.effective_config(organisation).await?, |view| describe(&view.data))
        }
        Limits::Set { change, whose } => {
            let (scope, scope_id) = scope_of(whose, session)?;
            // Writing replaces everything, so that what is not to change must be read first.
            let query = ConfigQuery { scope, scope_id };
            let data = ConfigData { limits: change.over(client.config(&query).await?.data.limits) };
            let ConfigQuery { scope, scope_id } = query;
            let request = ConfigRequest { scope, scope_id, data };
            client.put_config(&request).await?;
            output.result(&request, |request| describe(&request.data))
        }
    }
}

impl Change {
    fn over(self, written: LimitsData) -> LimitsData {
        LimitsData {
            max_concurrent_runs: self.max_concurrent_runs.or(written.max_concurrent_runs),
            idempotency_retention_sec: self.idempotency_retention_sec.or(written.idempotency_retention_sec),
        }
    }
}

fn scope_of(whose: Whose, session: &Session) -> Result<(ConfigScope, Option<String>)> {
    if whose.system {
        return Ok((ConfigScope::System, None));
    }
    let named = match (whose.organisation, &session.tenant) {
        (Some(tenant), _) => Some(tenant),
        (None, Some(tenant)) => {
            Some(tenant.parse::<TenantId>().map_err(|error| Failure::Usage(error.to_string()))?)
        }
        (None, None) => None,
    };
    Ok((ConfigScope::Org, named.map(String::from)))
}

fn describe(data: &ConfigData) -> String {
    fields(&[
        ("max_concurrent_runs", Some(or_dash(data.limits.max_concurrent_runs.as_ref()))),
        ("idempotency_retention_sec", Some(or_dash(data.limits.idempotency_retention_sec.as_ref()))),
    ])
}
