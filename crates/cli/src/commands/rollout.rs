//! `interlock rollout`: try a retry policy on a share of the runs, beside the one in force.

mod report;

use clap::{Args, Subcommand};
use interlock_api::PageQuery;
use interlock_api::client::Client;
use interlock_api::rollouts::{EndRolloutRequest, StartRolloutRequest};
use interlock_model::contention::Guards;
use interlock_model::retry::RetryPolicy;

use super::{Session, durations};
use crate::exit::{Failure, Result};

pub(crate) const EXAMPLES: &str = "\
Examples:
  interlock rollout start --candidate bounded_jitter:500ms:30% --share 10% --duration 7d
  interlock rollout status
  interlock rollout abort --reason 'seen enough'";

#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Try a policy on a share of the runs until its duration or a guard ends it
    Start(RolloutStartFlags),
    /// Compare the two arms of a rollout
    Status {
        /// Rollout id [default: the running one, else the last]
        id: Option<String>,
    },
    /// Put the candidate in force now
    Promote(RolloutEndFlags),
    /// End the rollout and keep the policy in force
    Abort(RolloutEndFlags),
}

#[derive(Debug, Args)]
pub(crate) struct RolloutStartFlags {
    /// Policy to try, as in `retry-policy set`
    #[arg(long, value_name = "POLICY")]
    candidate: RetryPolicy,
    /// Share of the runs, such as 10%
    #[arg(long, value_name = "PERCENT", value_parser = durations::percent)]
    share: f64,
    /// Duration, such as 90s, 30m, 12h or 7d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = durations::milliseconds)]
    duration: u64,
    /// Roll back when the candidate costs more than N times the control [default: 2]
    #[arg(long, value_name = "N")]
    guard_ratio: Option<f64>,
    /// Conclude nothing before each arm has N results [default: 50]
    #[arg(long, value_name = "N")]
    min_samples: Option<u64>,
    /// Roll back when the candidate's p99 lock wait exceeds MS, whatever the control's is
    #[arg(long, value_name = "MS")]
    max_p99_lock_wait_ms: Option<u64>,
    /// Reason, recorded in the history
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RolloutEndFlags {
    /// Rollout id [default: the running one]
    id: Option<String>,
    /// Reason, recorded in the history
    #[arg(long)]
    reason: Option<String>,
}

pub(super) async fn run(command: RolloutCommand, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    let shown = match command {
        RolloutCommand::Start(start) => client.start_rollout(&request(start)).await?,
        RolloutCommand::Status { id } => client.rollout(&chosen(client, id).await?).await?,
        RolloutCommand::Promote(RolloutEndFlags { id, reason }) => {
            let id = chosen(client, id).await?;
            client.promote_rollout(&id, &EndRolloutRequest { reason }).await?
        }
        RolloutCommand::Abort(RolloutEndFlags { id, reason }) => {
            let id = chosen(client, id).await?;
            client.abort_rollout(&id, &EndRolloutRequest { reason }).await?
        }
    };
    output.result(&shown, report::describe)
}

/// The named rollout, else the newest.
async fn chosen(client: &Client, id: Option<String>) -> Result<String> {
    if let Some(id) = id {
        return Ok(id);
    }
    let newest = PageQuery { limit: Some(1), ..PageQuery::default() };
    let newest = client.rollouts(&newest).await?.items.pop();
    newest.map(|rollout| rollout.id.to_string()).ok_or(Failure::Nothing(
        "there is no rollout yet. Start one: `interlock rollout start --candidate POLICY --share 10%`",
    ))
}

fn request(start: RolloutStartFlags) -> StartRolloutRequest {
    let RolloutStartFlags {
        candidate,
        share,
        duration,
        guard_ratio,
        min_samples,
        max_p99_lock_wait_ms,
        reason,
    } = start;
    let default = Guards::default();
    let guards = Guards {
        ratio: guard_ratio.unwrap_or(default.ratio),
        min_samples: min_samples.unwrap_or(default.min_samples),
        max_p99_lock_wait_ms,
    };
    StartRolloutRequest { candidate, share_percent: share, duration_ms: duration, guards, reason }
}
