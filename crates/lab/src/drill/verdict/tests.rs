use super::*;
use crate::drill::plan::DrillCheck;

const TTL: Duration = Duration::from_secs(1);
const TTL_MS: u64 = 1_000;
const HOLDER_FENCE: u64 = 10;
const CONTENDER_FENCE: u64 = 11;

type PlannedObservations = Vec<(DrillActor, Observation)>;

/// Observations that match the plan.
fn as_planned() -> PlannedObservations {
    let observed = |&(actor, operation, expected): &DrillCheck| {
        let fence = match actor {
            DrillActor::HolderLive | DrillActor::HolderLate => Some(HOLDER_FENCE),
            DrillActor::Contender => Some(CONTENDER_FENCE),
            DrillActor::ContenderEarly | DrillActor::Afterwards => None,
        };
        let outcome = match expected {
            ExpectedOutcome::Accepted | ExpectedOutcome::LargerFence => DrillOutcome::Accepted,
            ExpectedOutcome::NotGranted => DrillOutcome::Held,
            ExpectedOutcome::Refused => DrillOutcome::Stale,
            ExpectedOutcome::Kept => DrillOutcome::Kept,
        };
        let detail = "as planned".to_owned();
        (actor, Observation { operation, fence, outcome, detail, lease_age_ms: 0 })
    };
    CHECKS.iter().map(observed).collect()
}

fn at(observed: &mut PlannedObservations, actor: DrillActor, operation: DrillOperation) -> &mut Observation {
    let mut all = observed.iter_mut();
    &mut all.find(|(by, observation)| *by == actor && observation.operation == operation).unwrap().1
}

/// The verdict, and the rows that are not ok.
fn verdict(observed: &PlannedObservations) -> (DrillVerdict, Vec<(DrillActor, DrillOperation)>) {
    let rows = evaluate(observed, TTL);
    let failed = rows.iter().filter(|row| row.verdict != RowVerdict::Ok);
    (overall(&rows), failed.map(|row| (row.actor, row.operation)).collect())
}

#[test]
fn no_check_is_in_the_plan_twice() {
    for (index, (actor, operation, _)) in CHECKS.iter().enumerate() {
        let is_same = |(other, also, _): &DrillCheck| (other, also) == (actor, operation);
        assert!(!CHECKS[..index].iter().any(is_same), "{actor}: {operation}");
    }
}

#[test]
fn observations_as_planned_hold() {
    assert_eq!(verdict(&as_planned()), (DrillVerdict::Held, Vec::new()));
}

#[test]
fn every_single_accepted_late_write_is_broken() {
    for (actor, operation, _) in CHECKS.iter().filter(|check| check.2 == ExpectedOutcome::Refused) {
        let mut observed = as_planned();
        at(&mut observed, *actor, *operation).outcome = DrillOutcome::Accepted;
        assert_eq!(verdict(&observed), (DrillVerdict::Broken, vec![(*actor, *operation)]));
    }
}

#[test]
fn every_single_refused_write_of_a_live_holder_is_broken() {
    for (actor, operation, _) in CHECKS.iter().filter(|check| check.2 == ExpectedOutcome::Accepted) {
        let mut observed = as_planned();
        at(&mut observed, *actor, *operation).outcome = DrillOutcome::Stale;
        assert_eq!(verdict(&observed), (DrillVerdict::Broken, vec![(*actor, *operation)]));
    }
}

#[test]
fn a_refusal_after_the_lease_could_expire_is_inconclusive() {
    let mut observed = as_planned();
    let late = at(&mut observed, DrillActor::HolderLive, DrillOperation::LockRenew);
    (late.outcome, late.lease_age_ms) = (DrillOutcome::Stale, TTL_MS);
    let row = (DrillActor::HolderLive, DrillOperation::LockRenew);
    assert_eq!(verdict(&observed), (DrillVerdict::Unknown, vec![row]));
    // It does not prove either that two had the lock at once.
    at(&mut observed, DrillActor::ContenderEarly, DrillOperation::LockAcquire).outcome =
        DrillOutcome::Accepted;
    assert_eq!(verdict(&observed).0, DrillVerdict::Unknown);
}

#[test]
fn a_grant_while_the_holder_is_live_is_broken() {
    for operation in [DrillOperation::LockAcquire, DrillOperation::JobClaim] {
        let mut observed = as_planned();
        at(&mut observed, DrillActor::ContenderEarly, operation).outcome = DrillOutcome::Accepted;
        let row = (DrillActor::ContenderEarly, operation);
        assert_eq!(verdict(&observed), (DrillVerdict::Broken, vec![row]));
    }
}

#[test]
fn a_fence_that_does_not_grow_is_broken() {
    for operation in [DrillOperation::LockAcquire, DrillOperation::JobClaim] {
        for fence in [Some(HOLDER_FENCE), Some(HOLDER_FENCE - 1), None] {
            let mut observed = as_planned();
            at(&mut observed, DrillActor::Contender, operation).fence = fence;
            assert_eq!(verdict(&observed), (DrillVerdict::Broken, vec![(DrillActor::Contender, operation)]));
        }
    }
}

#[test]
fn overwritten_work_of_the_contender_is_broken() {
    for operation in [DrillOperation::RunOutput, DrillOperation::LedgerOrder] {
        let mut observed = as_planned();
        at(&mut observed, DrillActor::Afterwards, operation).outcome = DrillOutcome::Overwritten;
        assert_eq!(verdict(&observed), (DrillVerdict::Broken, vec![(DrillActor::Afterwards, operation)]));
    }
}

#[test]
fn a_missing_or_unknown_outcome_is_inconclusive() {
    for (actor, operation, _) in CHECKS {
        let mut observed = as_planned();
        at(&mut observed, actor, operation).outcome = DrillOutcome::Unknown;
        assert_eq!(verdict(&observed), (DrillVerdict::Unknown, vec![(actor, operation)]));
        observed.retain(|(by, observation)| (*by, observation.operation) != (actor, operation));
        assert_eq!(verdict(&observed), (DrillVerdict::Unknown, vec![(actor, operation)]));
    }
    assert_eq!(verdict(&Vec::new()).0, DrillVerdict::Unknown);
    assert_eq!(overall(&[]), DrillVerdict::Unknown);
}

#[test]
fn the_worst_of_several_outcomes_counts_and_is_shown() {
    let mut observed = as_planned();
    let refused = at(&mut observed, DrillActor::HolderLate, DrillOperation::JobComplete).clone();
    let accepted = Observation { outcome: DrillOutcome::Accepted, detail: "200".to_owned(), ..refused };
    observed.insert(0, (DrillActor::HolderLate, accepted));
    let rows = evaluate(&observed, TTL);
    let row = rows.iter().find(|row| row.verdict == RowVerdict::Broken).unwrap();
    assert_eq!((row.times, row.seen.as_deref()), (2, Some("200")));
    assert_eq!(
        summary(&rows, Some(1_700)),
        "broken: after a pause of 1700 ms, 6 of 7 late writes were refused. Unexpected: holder late: job complete"
    );
}
