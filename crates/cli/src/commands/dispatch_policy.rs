//! `interlock dispatch-policy`: show and test the policy that decides which jobs may go to a worker.

use clap::{Args, Subcommand};
use interlock_api::dispatch_policy::{
    CheckRequest, CheckView, DispatchPolicyView, PolicyServiceView, RuleCheck,
};
use interlock_model::dispatch_policy::{FailureMode, Rule};
use interlock_model::{JobId, Tag, Topic};

use super::Session;
use crate::exit::Result;
use crate::output::{Column, fields, table};

pub(crate) const EXAMPLES: &str = "\
Examples:
  interlock dispatch-policy show
  interlock dispatch-policy check --topic deploy.prod --capability db:write --risk-tag prod
  interlock dispatch-policy check --job 0192f0c1-…:deploy@1";

#[derive(Debug, Subcommand)]
pub(crate) enum DispatchPolicyCommand {
    /// Show the rules in force, in their order, and the policy service
    Show,
    /// Show what the policy would decide for a job, and why; changes nothing
    Check(PolicyCheckFlags),
}

#[derive(Debug, Args)]
pub(crate) struct PolicyCheckFlags {
    /// Id of an existing job
    #[arg(long, required_unless_present = "topic", conflicts_with_all = ["topic", "capability", "risk_tags", "requires"])]
    job: Option<JobId>,
    /// Topic of a hypothetical job
    #[arg(long)]
    topic: Option<Topic>,
    /// Capability that the job uses
    #[arg(long)]
    capability: Option<Tag>,
    /// Risk tag of the job; repeatable
    #[arg(long = "risk-tag", value_name = "TAG")]
    risk_tags: Vec<Tag>,
    /// Capability that its worker must have; repeatable
    #[arg(long, value_name = "TAG")]
    requires: Vec<Tag>,
}

pub(super) async fn run(command: DispatchPolicyCommand, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match command {
        DispatchPolicyCommand::Show => output.result(&client.dispatch_policy().await?, show),
        DispatchPolicyCommand::Check(PolicyCheckFlags { job, topic, capability, risk_tags, requires }) => {
            let request = CheckRequest { job_id: job, topic, capability, risk_tags, requires };
            output.result(&client.check_dispatch(&request).await?, explain)
        }
    }
}

fn show(policy: &DispatchPolicyView) -> String {
    let columns: [Column<Rule>; 2] = [("RULE", |rule| rule.name.to_string()), ("DECISION", Rule::words)];
    let rules = if policy.rules.is_empty() {
        "no rules: every job may go unless the service decides otherwise".to_owned()
    } else {
        table(&columns, &policy.rules)
    };
    let rest = fields(&[
        ("service", Some(policy.service.as_ref().map_or_else(|| "none".to_owned(), service))),
        ("allowed while it was unreachable", Some(policy.fail_open_total.to_string())),
    ]);
    format!("{rules}\n{rest}")
}

fn explain(check: &CheckView) -> String {
    let columns: [Column<RuleCheck>; 3] = [
        ("RULE", |check| check.name.clone()),
        ("DECISION", |check| check.decision.clone()),
        ("WHY", |check| check.mismatch.clone().unwrap_or_else(|| "matches and decides".to_owned())),
    ];
    let mut text = String::new();
    if !check.rules.is_empty() {
        text = table(&columns, &check.rules) + "\n";
    }
    text + &fields(&[
        ("tenant", Some(check.tenant.to_string())),
        ("decision", Some(check.decision.clone())),
        ("because", Some(check.reason.clone())),
        ("service", check.service.as_ref().map(service)),
    ])
}

fn service(service: &PolicyServiceView) -> String {
    let then = match service.failure {
        FailureMode::Open => "jobs may go and are counted",
        FailureMode::Closed => "jobs wait",
    };
    let since = service.away_since.map_or_else(String::new, |since| format!(", unreachable since {since}"));
    format!("{} (breaker {}{since}; while it is unreachable {then})", service.url, service.state)
}
