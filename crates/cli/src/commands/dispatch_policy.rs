//! `interlock dispatch-policy`: what must be decided before a job may go to a worker.

use clap::{Args, Subcommand};
use interlock_api::dispatch_policy::{
    CheckRequest, CheckView, DispatchPolicyView, PolicyServiceView, RuleLook,
};
use interlock_model::dispatch_policy::{FailureMode, Rule};
use interlock_model::{JobId, Tag, Topic};

use super::Session;
use crate::exit::Result;
use crate::output::{fields, table};

pub(crate) const EXAMPLES: &str = "\
Examples:
  interlock dispatch-policy show
  interlock dispatch-policy check --topic deploy.prod --capability db:write --risk-tag prod
  interlock dispatch-policy check --job 0192f0c1-…:deploy@1";

#[derive(Debug, Subcommand)]
pub(crate) enum DispatchPolicy {
    /// What is in force: the rules in their order, and the service
    Show,
    /// What would be decided of a job, and why; nothing is changed
    Check(Check),
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// A job that is there
    #[arg(long, required_unless_present = "topic", conflicts_with_all = ["topic", "capability", "risk_tags", "requires"])]
    job: Option<JobId>,
    /// The topic of a job that could be
    #[arg(long)]
    topic: Option<Topic>,
    /// What the job is about to use
    #[arg(long)]
    capability: Option<Tag>,
    /// What makes it risky; may be given several times
    #[arg(long = "risk-tag", value_name = "TAG")]
    risk_tags: Vec<Tag>,
    /// What its worker must be capable of; may be given several times
    #[arg(long, value_name = "TAG")]
    requires: Vec<Tag>,
}

pub(super) async fn run(command: DispatchPolicy, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match command {
        DispatchPolicy::Show => output.result(&client.dispatch_policy().await?, show),
        DispatchPolicy::Check(Check { job, topic, capability, risk_tags, requires }) => {
            let request = CheckRequest { job_id: job, topic, capability, risk_tags, requires };
            output.result(&client.check_dispatch(&request).await?, explain)
        }
    }
}

fn show(policy: &DispatchPolicyView) -> String {
    let row = |rule: &Rule| [rule.name.to_string(), rule.words()];
    let rules = if policy.rules.is_empty() {
        "no rules: what no service judges may go".to_owned()
    } else {
        table(["RULE", "DECISION"], policy.rules.iter().map(row))
    };
    let rest = fields(&[
        ("service", Some(policy.service.as_ref().map_or_else(|| "none".to_owned(), service))),
        ("let go while it was away", Some(policy.fail_open_total.to_string())),
    ]);
    format!("{rules}\n{rest}")
}

fn explain(check: &CheckView) -> String {
    let row = |look: &RuleLook| {
        let why = look.mismatch.clone().unwrap_or_else(|| "matches, and decides".to_owned());
        [look.name.clone(), look.decision.clone(), why]
    };
    let mut words = String::new();
    if !check.rules.is_empty() {
        words = table(["RULE", "SAYS", "WHY"], check.rules.iter().map(row)) + "\n";
    }
    words
        + &fields(&[
            ("tenant", Some(check.tenant.to_string())),
            ("decision", Some(check.decision.clone())),
            ("because", Some(check.reason.clone())),
            ("service", check.service.as_ref().map(service)),
        ])
}

fn service(service: &PolicyServiceView) -> String {
    let then = match service.failure {
        FailureMode::Open => "jobs go on and are counted",
        FailureMode::Closed => "jobs wait",
    };
    let away = service.away_since.map_or_else(String::new, |since| format!(", away since {since}"));
    format!("{} (breaker {}{away}; while it is away {then})", service.url, service.state)
}
