//! Roll-outs.

use interlock_api::rollouts::{ArmView, RolloutEventView, RolloutView};
use interlock_api::status::RolloutStatus;
use interlock_control::rollouts::RolloutDetail;
use interlock_model::contention::{Arm, ArmSummary, Rollout, RolloutEvent};

pub(crate) fn view(detail: RolloutDetail) -> RolloutView {
    let RolloutDetail { rollout, control, candidate, verdict, note } = detail;
    RolloutView {
        state: rollout.state,
        verdict,
        note: note.map(str::to_owned),
        share_percent: rollout.share.percent(),
        control_version: rollout.control_version,
        guards: rollout.guards,
        started_at: rollout.started_at.into(),
        ends_at: rollout.ends_at.into(),
        ended_at: rollout.ended_at.map(Into::into),
        by: starter(&rollout),
        arms: vec![arm(&rollout, Arm::Control, &control), arm(&rollout, Arm::Candidate, &candidate)],
        id: rollout.id,
        history: rollout.history.into_iter().map(event).collect(),
    }
}

pub(crate) fn status(rollout: &Rollout) -> RolloutStatus {
    RolloutStatus {
        id: rollout.id.to_string(),
        share_percent: rollout.share.percent(),
        candidate: rollout.candidate.policy.to_string(),
        by: starter(rollout),
        ends_at: rollout.ends_at.into(),
    }
}

fn starter(rollout: &Rollout) -> String {
    rollout.history.first().map(|event| event.by.clone()).unwrap_or_default()
}

fn arm(rollout: &Rollout, arm: Arm, summary: &ArmSummary) -> ArmView {
    ArmView {
        arm,
        policy: rollout.tuning(arm).policy,
        results: summary.results,
        retries: summary.retries,
        outstanding: summary.outstanding,
        has_enough_samples: summary.has_enough,
        retries_per_minute: summary.retries_per_minute,
        retries_per_result: summary.retries_per_result,
        lock_wait_p95_ms: summary.lock_wait_p95_ms,
        lock_wait_p99_ms: summary.lock_wait_p99_ms,
        result_latency_p95_ms: summary.result_latency_p95_ms,
        first_retry_success: summary.first_retry_success,
    }
}

fn event(event: RolloutEvent) -> RolloutEventView {
    let RolloutEvent { kind, at, by, why } = event;
    RolloutEventView { time: at.into(), event: kind, by, why }
}
