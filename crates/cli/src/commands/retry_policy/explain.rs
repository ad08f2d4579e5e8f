//! `interlock retry-policy explain`: the schedule of one contender, computed from its id.

use clap::Args;
use interlock_api::PageQuery;
use interlock_api::client::Client;
use interlock_api::rollouts::RolloutView;
use interlock_model::contention::{Arm, RolloutState, Scope, Share, arm_of};
use interlock_model::retry::{RetryPolicy, Seed};
use interlock_model::time::millis;
use interlock_model::{JobId, RunId};
use serde::Serialize;

use crate::commands::Session;
use crate::exit::{Failure, Result};
use crate::output::{Column, Output, fields, table};

pub(super) const EXAMPLES: &str = "\
The policy lock-busy delays a result whose run is leased, with the job id as seed. The policy
admission delays a start that waits for the admission lock, with the run id as seed.
Needs no server if --policy is given.

Examples:
  interlock retry-policy explain --job '0192f0c1-…:build@1'
  interlock retry-policy explain --run 0192f0c1-… --policy full_jitter:10ms:2s --attempts 20
  interlock retry-policy explain --seed 7 --policy bounded_jitter:500ms:30% --json";

#[derive(Debug, Args)]
pub(crate) struct ExplainFlags {
    #[command(flatten)]
    contender: Contender,
    /// Policy [default: the one in force]
    #[arg(long)]
    policy: Option<RetryPolicy>,
    /// With --seed: scope whose policy is used
    #[arg(long, default_value = "lock-busy", conflicts_with_all = ["job", "run", "policy"])]
    scope: Scope,
    /// Number of delays to print
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    attempts: u32,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Contender {
    /// Job whose result waits for its run
    #[arg(long)]
    job: Option<JobId>,
    /// Run whose start waits for the admission lock
    #[arg(long)]
    run: Option<RunId>,
    /// Seed of the contender
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

/// A schedule, and what it was computed from.
#[derive(Debug, Serialize)]
struct ExplainedSchedule {
    scope: Scope,
    policy: String,
    /// The arm of a running rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    arm: Option<Arm>,
    seed: u64,
    attempts: Vec<ScheduledAttempt>,
}

#[derive(Debug, Serialize)]
struct ScheduledAttempt {
    #[serde(rename = "attempt")]
    number: u32,
    delay_ms: u64,
    /// Since the first attempt.
    total_ms: u64,
}

pub(super) async fn run(
    flags: ExplainFlags,
    output: Output,
    session: impl FnOnce() -> Result<Session>,
) -> Result<()> {
    let (scope, seed) = match &flags.contender {
        Contender { job: Some(job), .. } => (Scope::LockBusy, Seed::of_result(job)),
        Contender { run: Some(run), .. } => (Scope::Admission, Seed::of_admission(*run)),
        Contender { seed: Some(seed), .. } => (flags.scope, Seed::new(*seed)),
        Contender { .. } => return Err(Failure::Usage("give one of --job, --run and --seed".to_owned())),
    };
    let (policy, arm) = match flags.policy {
        Some(policy) => (policy, None),
        None => in_force(&session()?.client, scope, flags.contender.job.as_ref()).await?,
    };
    let explained = explain((scope, arm), policy, seed, flags.attempts);
    output.result(&explained, describe)
}

/// The policy in force for this contender: during a rollout, that of its run's arm.
async fn in_force(client: &Client, scope: Scope, job: Option<&JobId>) -> Result<(RetryPolicy, Option<Arm>)> {
    let newest = PageQuery { limit: Some(1), ..PageQuery::default() };
    if let Some(job) = job
        && let Some(rollout) = client.rollouts(&newest).await?.items.pop()
        && rollout.state == RolloutState::Running
    {
        return of_arm(&rollout, job);
    }
    Ok((client.retry_policy(scope).await?.in_force.policy, None))
}

fn of_arm(rollout: &RolloutView, job: &JobId) -> Result<(RetryPolicy, Option<Arm>)> {
    let share =
        Share::of_percent(rollout.share_percent).map_err(|error| Failure::Usage(error.to_string()))?;
    let arm = arm_of(&rollout.id, share, job.run);
    let found = rollout.arms.iter().find(|view| view.arm == arm);
    let found = found
        .ok_or_else(|| Failure::Usage("the server's answer lacks the arms of the rollout".to_owned()))?;
    Ok((found.policy, Some(arm)))
}

fn explain(
    (scope, arm): (Scope, Option<Arm>),
    policy: RetryPolicy,
    seed: Seed,
    attempts: u32,
) -> ExplainedSchedule {
    let mut total_ms = 0u64;
    let delays = (1..=attempts).zip(policy.schedule(seed)).map(|(number, delay)| {
        let delay_ms = millis(delay);
        total_ms = total_ms.saturating_add(delay_ms);
        ScheduledAttempt { number, delay_ms, total_ms }
    });
    let attempts = delays.collect();
    ExplainedSchedule { scope, policy: policy.to_string(), arm, seed: seed.number(), attempts }
}

fn describe(explained: &ExplainedSchedule) -> String {
    let head = fields(&[
        ("scope", Some(explained.scope.name().to_owned())),
        ("policy", Some(explained.policy.clone())),
        ("arm", explained.arm.map(|arm| arm.name().to_owned())),
        ("seed", Some(explained.seed.to_string())),
    ]);
    let columns: [Column<ScheduledAttempt>; 3] = [
        ("ATTEMPT", |tried| tried.number.to_string()),
        ("DELAY", |tried| format!("{} ms", tried.delay_ms)),
        ("TOTAL", |tried| format!("{} ms", tried.total_ms)),
    ];
    format!("{head}\n\n{}", table(&columns, &explained.attempts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_the_one_that_the_server_computes() {
        let policy = RetryPolicy::DecorrelatedJitter { base_ms: 10, cap_ms: 2_000 };
        let job: JobId = "0192f0c1-0000-7000-8000-000000000001:build@1".parse().unwrap();
        let seed = Seed::of_result(&job);
        let explained = explain((Scope::LockBusy, None), policy, seed, 12);
        let delays: Vec<u64> = explained.attempts.iter().map(|tried| tried.delay_ms).collect();
        let server: Vec<u64> = (1..=12).map(|attempt| millis(policy.delay_of(attempt, seed))).collect();
        assert_eq!(delays, server);
        assert_eq!(explained.attempts.last().unwrap().total_ms, server.iter().sum::<u64>());
        assert!(describe(&explained).contains(&format!("seed    {}", seed.number())));
    }
}
