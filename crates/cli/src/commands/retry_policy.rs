//! `interlock retry-policy`: show, change and explain the retry policies of contended locks.

mod explain;

use clap::{Args, Subcommand};
use interlock_api::retry_policies::{
    PolicyVersion, RetryPolicyDetail, RetryPolicyView, RollbackRequest, SetPolicyRequest, TuningView,
};
use interlock_model::contention::Scope;
use interlock_model::retry::RetryPolicy;

use super::Session;
use crate::exit::Result;
use crate::output::{Column, Output, fields, or_dash, table};

pub(crate) const EXAMPLES: &str = "\
Examples:
  interlock retry-policy get
  interlock retry-policy set lock-busy bounded_jitter:500ms:30% --reason 'retries come in waves'
  interlock retry-policy rollback lock-busy
  interlock retry-policy explain --job '0192f0c1-…:build@1' --policy full_jitter:500ms:5s";

#[derive(Debug, Subcommand)]
pub(crate) enum RetryPolicyCommand {
    /// Show the policies in force; with a scope, also its history
    Get {
        /// Scope: admission or lock-busy
        scope: Option<Scope>,
    },
    /// Set a policy on every replica; settings that are not named stay as they are
    #[command(after_help = FORMS)]
    Set(SetPolicyFlags),
    /// Restore the previous version; run it again to restore the one before
    Rollback {
        /// Scope: admission or lock-busy
        scope: Scope,
        #[command(flatten)]
        change: ChangeFlags,
    },
    /// Print every delay of one contender, computed from its seed
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::ExplainFlags),
}

const FORMS: &str = "\
Policies: fixed:500ms, bounded_jitter:500ms:30%, full_jitter:10ms:2s, equal_jitter:10ms:2s,
decorrelated_jitter:10ms:2s, exponential:100ms:2:30s";

#[derive(Debug, Args)]
pub(crate) struct SetPolicyFlags {
    /// Scope: admission or lock-busy
    scope: Scope,
    /// Policy, such as `full_jitter:10ms:2s`
    policy: RetryPolicy,
    /// How long a start waits for the lock, or a result for its run
    #[arg(long, value_name = "MS")]
    max_wait_ms: Option<u64>,
    /// Lease of the lock
    #[arg(long, value_name = "MS")]
    lock_ttl_ms: Option<u64>,
    #[command(flatten)]
    change: ChangeFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ChangeFlags {
    /// Refuse unless this version is in force
    #[arg(long, value_name = "N")]
    expected_version: Option<u64>,
    /// Reason, recorded in the history
    #[arg(long)]
    reason: Option<String>,
}

pub(super) async fn run(
    command: RetryPolicyCommand,
    output: Output,
    session: impl FnOnce() -> Result<Session>,
) -> Result<()> {
    match command {
        RetryPolicyCommand::Get { scope: None } => {
            output.result(&session()?.client.retry_policies().await?, |page| table(&COLUMNS, &page.items))
        }
        RetryPolicyCommand::Get { scope: Some(scope) } => {
            output.result(&session()?.client.retry_policy(scope).await?, describe)
        }
        RetryPolicyCommand::Set(SetPolicyFlags { scope, policy, max_wait_ms, lock_ttl_ms, change }) => {
            let ChangeFlags { expected_version, reason } = change;
            let request = SetPolicyRequest { policy, max_wait_ms, lock_ttl_ms, expected_version, reason };
            output.result(&session()?.client.set_retry_policy(scope, &request).await?, in_force)
        }
        RetryPolicyCommand::Rollback { scope, change } => {
            let ChangeFlags { expected_version, reason } = change;
            let request = RollbackRequest { expected_version, reason };
            output.result(&session()?.client.roll_back_retry_policy(scope, &request).await?, in_force)
        }
        RetryPolicyCommand::Explain(flags) => explain::run(flags, output, session).await,
    }
}

const COLUMNS: [Column<RetryPolicyView>; 7] = [
    ("SCOPE", |policy| policy.scope.name().to_owned()),
    ("POLICY", |policy| policy.policy.to_string()),
    ("MAX WAIT", |policy| format!("{} ms", policy.max_wait_ms)),
    ("LOCK TTL", |policy| format!("{} ms", policy.lock_ttl_ms)),
    ("VERSION", |policy| policy.version.to_string()),
    ("BY", |policy| policy.by.clone().unwrap_or_else(|| "as configured".to_owned())),
    ("AT", |policy| or_dash(policy.at.as_ref())),
];

const VERSIONS: [Column<PolicyVersion>; 8] = [
    ("VERSION", |version| version.version.to_string()),
    ("POLICY", |version| tuned(version, |tuning| tuning.policy.to_string(), "as configured")),
    ("MAX WAIT", |version| tuned(version, |tuning| format!("{} ms", tuning.max_wait_ms), "-")),
    ("LOCK TTL", |version| tuned(version, |tuning| format!("{} ms", tuning.lock_ttl_ms), "-")),
    ("RESTORES", |version| or_dash(version.restores.as_ref())),
    ("BY", |version| version.by.clone()),
    ("AT", |version| version.at.to_string()),
    ("REASON", |version| or_dash(version.reason.as_ref())),
];

fn tuned(version: &PolicyVersion, cell: fn(TuningView) -> String, otherwise: &str) -> String {
    version.tuning.map_or_else(|| otherwise.to_owned(), cell)
}

fn in_force(policy: &RetryPolicyView) -> String {
    fields(&[
        ("scope", Some(policy.scope.name().to_owned())),
        ("policy", Some(policy.policy.to_string())),
        ("max wait", Some(format!("{} ms", policy.max_wait_ms))),
        ("lock ttl", Some(format!("{} ms", policy.lock_ttl_ms))),
        ("version", Some(policy.version.to_string())),
        ("restores", policy.restores.map(|version| format!("version {version}"))),
        ("by", Some(policy.by.clone().unwrap_or_else(|| "as configured".to_owned()))),
        ("at", policy.at.map(|at| at.to_string())),
        ("reason", policy.reason.clone()),
    ])
}

fn describe(detail: &RetryPolicyDetail) -> String {
    let history = match detail.versions.as_slice() {
        [] => "never changed".to_owned(),
        versions => table(&VERSIONS, versions),
    };
    format!("{}\n\n{history}", in_force(&detail.in_force))
}
