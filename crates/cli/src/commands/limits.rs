//! `interlock limits`: named limits, and what a tenant may use.

mod named;
mod of_system;
mod queue;

use clap::{Args, Subcommand};
use interlock_api::limits::{
    ConfigData, ConfigQuery, ConfigRequest, ConfigScope, EffectiveConfigQuery, LimitsData,
};
use interlock_model::TenantId;
use interlock_model::limit::{BYTES_BOUNDS, QUOTA_BOUNDS, RUNS_MAX_BOUND};

use self::named::{ExplainFlags, NamedChange, PauseFlags};
use self::queue::QueueFlags;
use super::Session;
use crate::arguments::ListFlags;
use crate::exit::{Failure, Result};
use crate::output::{fields, or_dash};

pub(crate) const EXAMPLES: &str = "\
Examples:
  interlock limits list                                  # used 3/5 (+12 queued)
  interlock limits set per-repo --key input.repo --max-runs 1 --on-full queue
  interlock limits explain build --input '{\"repo\": \"a\"}'  # what a start would meet now
  interlock limits set --max-concurrent-runs 2 acme      # the cap of the tenant acme";

const SET_EXAMPLES: &str = "\
A flag of a named limit makes the argument the name of a limit; `tenant-runs` is the tenant's own.

Examples:
  interlock limits set per-repo --key input.repo --max-runs 1 --on-full queue --queue-max 50
  interlock limits set per-repo --file per-repo.json
  interlock limits set per-repo --system --key input.repo --max-runs 1   # in every tenant separately
  interlock limits set --max-concurrent-runs 2 acme";

#[derive(Debug, Subcommand)]
pub(crate) enum LimitsCommand {
    /// List the limits of a tenant with their usage, or those of the system
    List(LimitsListFlags),
    /// Show a named limit with its busiest groups
    Show(LimitOfScope),
    /// Show what a tenant may use
    Get(LimitsScope),
    /// Set a named limit, or what a tenant may use; what is not named stays as it is
    #[command(after_help = SET_EXAMPLES)]
    Set {
        #[command(flatten)]
        change: LimitsChange,
        #[command(flatten)]
        named: Box<NamedChange>,
        #[command(flatten)]
        scope: SetScope,
    },
    /// Delete a named limit; runs that wait for it are re-evaluated
    Delete(LimitOfScope),
    /// Pause a limit: nothing starts in it until it is resumed
    Pause(PauseFlags),
    /// Resume a limit
    Resume(LimitOfScope),
    /// List the runs that wait for a limit, in order
    Queue(QueueFlags),
    /// Explain what limits would do to a start; start nothing
    Explain(ExplainFlags),
}

#[derive(Debug, Args)]
pub(crate) struct LimitOfScope {
    /// Name of the limit
    name: String,
    /// The system's: it applies to every tenant separately
    #[arg(long)]
    system: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LimitsListFlags {
    #[command(flatten)]
    listing: ListFlags,
    /// List those of the system
    #[arg(long)]
    system: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SetScope {
    /// Name of the limit; or the tenant [default: your own]
    #[arg(value_name = "LIMIT|TENANT")]
    name: Option<TenantId>,
    /// Set a named limit for every tenant, or the defaults of tenants without limits of their own
    #[arg(long)]
    system: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
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
    #[arg(long, value_name = "N", value_parser = quota())]
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
        LimitsCommand::Set { change, named, scope } => match (named.is_given(), change.is_given()) {
            (true, false) => {
                let name = scope.name.ok_or_else(|| Failure::Usage("name the limit to set".to_owned()))?;
                if scope.system {
                    return of_system::set(name.as_str(), *named, session).await;
                }
                named::set(name.as_str(), *named, session).await
            }
            (false, true) => set_config(change, scope, session).await,
            (false, false) => {
                let sentence = "name what to set, such as --max-runs or --max-concurrent-runs";
                Err(Failure::Usage(sentence.to_owned()))
            }
            (true, true) => {
                let sentence = "set a named limit, or what a tenant may use, not both at once";
                Err(Failure::Usage(sentence.to_owned()))
            }
        },
        LimitsCommand::List(LimitsListFlags { listing, system: true }) => {
            of_system::list(listing, session).await
        }
        LimitsCommand::List(LimitsListFlags { listing, .. }) => named::list(listing, session).await,
        LimitsCommand::Show(LimitOfScope { name, system: true }) => of_system::show(&name, session).await,
        LimitsCommand::Show(LimitOfScope { name, .. }) => named::show(&name, session).await,
        LimitsCommand::Delete(LimitOfScope { name, system: true }) => of_system::delete(&name, session).await,
        LimitsCommand::Delete(LimitOfScope { name, .. }) => named::delete(&name, session).await,
        LimitsCommand::Pause(flags) => named::pause(flags, session).await,
        LimitsCommand::Resume(LimitOfScope { name, system: true }) => of_system::resume(&name, session).await,
        LimitsCommand::Resume(LimitOfScope { name, .. }) => named::resume(&name, session).await,
        LimitsCommand::Queue(flags) => queue::list(flags, session).await,
        LimitsCommand::Explain(flags) => named::explain(flags, session).await,
    }
}

async fn set_config(change: LimitsChange, scope: SetScope, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    if scope.system && scope.name.is_some() {
        let sentence = "--system sets the defaults of all tenants: leave the tenant out";
        return Err(Failure::Usage(sentence.to_owned()));
    }
    if change.max_tenants.is_some() && !scope.system {
        return Err(Failure::Usage("--max-tenants is a limit of the installation: add --system".to_owned()));
    }
    let (scope, scope_id) = if scope.system {
        (ConfigScope::System, None)
    } else {
        (ConfigScope::Org, scope.name.map(String::from).or(session.tenant.clone()))
    };
    // A write replaces all limits, so those that stay are read first.
    let query = ConfigQuery { scope, scope_id };
    let data = ConfigData { limits: change.over(client.config(&query).await?.data.limits) };
    let ConfigQuery { scope, scope_id } = query;
    let request = ConfigRequest { scope, scope_id, data };
    client.put_config(&request).await?;
    output.result(&request, |request| describe(&request.data))
}

impl LimitsChange {
    fn is_given(self) -> bool {
        self != Self::default()
    }

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
