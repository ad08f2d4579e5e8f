//! `interlock rollout`: a candidate policy, tried by some of the runs and judged beside the one in force.

mod durations;
mod report;

use clap::{Args, Subcommand};
use interlock_api::PageQuery;
use interlock_api::client::Client;
use interlock_api::rollouts::{EndRolloutRequest, GuardLimits, StartRolloutRequest};
use interlock_model::retry::RetryPolicy;

use super::Session;
use crate::exit::{Failure, Result};

pub(crate) const EXAMPLES: &str = "\
Examples:
  interlock rollout start --candidate bounded_jitter:500ms:30% --share 10% --duration 7d
  interlock rollout status
  interlock rollout abort --reason 'enough seen'";

#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Let a share of the runs try a policy; it ends itself
    Start(Start),
    /// The two arms side by side: of the roll-out that runs, else of the last one
    Status { id: Option<String> },
    /// Put the candidate in force now
    Promote(End),
    /// End it, and leave in force what is
    Abort(End),
}

#[derive(Debug, Args)]
pub(crate) struct Start {
    /// The policy to try, written as for `retry-policy set`
    #[arg(long, value_name = "POLICY")]
    candidate: RetryPolicy,
    /// Of the runs, such as 10%
    #[arg(long, value_name = "PERCENT", value_parser = durations::percent)]
    share: f64,
    /// Such as 90s, 30m, 12h or 7d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = durations::milliseconds)]
    duration: u64,
    /// How many times as much as the control the candidate may cost [default: 2]
    #[arg(long, value_name = "N")]
    guard_ratio: Option<f64>,
    /// Results that each arm must have before anything is concluded [default: 50]
    #[arg(long, value_name = "N")]
    min_samples: Option<u64>,
    /// The longest p99 lock wait of the candidate, whatever the control's is
    #[arg(long, value_name = "MS")]
    max_p99_lock_wait_ms: Option<u64>,
    /// Written down in the history
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct End {
    /// The one that runs if absent
    id: Option<String>,
    /// Written down in the history
    #[arg(long)]
    reason: Option<String>,
}

pub(super) async fn run(command: RolloutCommand, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    let shown = match command {
        RolloutCommand::Start(start) => client.start_rollout(&request(start)).await?,
        RolloutCommand::Status { id } => client.rollout(&chosen(client, id).await?).await?,
        RolloutCommand::Promote(End { id, reason }) => {
            let id = chosen(client, id).await?;
            client.promote_rollout(&id, &EndRolloutRequest { reason }).await?
        }
        RolloutCommand::Abort(End { id, reason }) => {
            let id = chosen(client, id).await?;
            client.abort_rollout(&id, &EndRolloutRequest { reason }).await?
        }
    };
    output.result(&shown, report::describe)
}

/// The one that was named, else the one that runs or was the last.
async fn chosen(client: &Client, id: Option<String>) -> Result<String> {
    if let Some(id) = id {
        return Ok(id);
    }
    let newest = PageQuery { limit: Some(1), ..PageQuery::default() };
    let newest = client.rollouts(&newest).await?.items.pop();
    newest.map(|rollout| rollout.id.to_string()).ok_or(Failure::Nothing("there was no roll-out yet"))
}

fn request(start: Start) -> StartRolloutRequest {
    let Start { candidate, share, duration, guard_ratio, min_samples, max_p99_lock_wait_ms, reason } = start;
    let default = GuardLimits::default();
    let guards = GuardLimits {
        ratio: guard_ratio.unwrap_or(default.ratio),
        min_samples: min_samples.unwrap_or(default.min_samples),
        max_p99_lock_wait_ms,
    };
    StartRolloutRequest { candidate, share_percent: share, duration_ms: duration, guards, reason }
}
