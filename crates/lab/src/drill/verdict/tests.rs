use super::*;

const TTL: Duration = Duration::from_secs(1);
const HOLDERS_FENCE: u64 = 10;
const CONTENDERS_FENCE: u64 = 11;

/// What the plan expects, seen.
fn as_planned() -> Vec<Seen> {
    let seen = |&(who, what, expected): &(Who, What, Expected)| Seen {
        who,
        what,
        fence: match who {
            Who::HolderLive | Who::HolderLate => Some(HOLDERS_FENCE),
            Who::Contender => Some(CONTENDERS_FENCE),
            Who::ContenderEarly | Who::Afterwards => None,
        },
        answer: match expected {
            Expected::Accepted | Expected::LargerFence => Answer::Accepted,
            Expected::NotGranted => Answer::Held,
            Expected::Refused => Answer::Stale,
            Expected::Kept => Answer::Kept,
        },
        words: "as planned".to_owned(),
        lease_age: Duration::ZERO,
    };
    CHECKS.iter().map(seen).collect()
}

fn at(seen: &mut [Seen], who: Who, what: What) -> &mut Seen {
    seen.iter_mut().find(|seen| seen.who == who && seen.what == what).unwrap()
}

/// The verdict, and the rows that have not held.
fn verdict(seen: &[Seen]) -> (Verdict, Vec<(Who, What)>) {
    let rows = judge(seen, TTL);
    let odd = rows.iter().filter(|row| row.finding != Finding::Ok).map(|row| (row.who, row.what));
    (overall(&rows), odd.collect())
}

#[test]
fn no_check_is_in_the_plan_twice() {
    for (index, (who, what, _)) in CHECKS.iter().enumerate() {
        assert!(
            !CHECKS[..index].iter().any(|(other, also, _)| (other, also) == (who, what)),
            "{who}: {what}"
        );
    }
}

#[test]
fn it_has_held_if_everything_is_as_planned() {
    assert_eq!(verdict(&as_planned()), (Verdict::Held, Vec::new()));
}

#[test]
fn every_single_late_write_that_is_accepted_breaks_it() {
    for (who, what, _) in CHECKS.iter().filter(|(_, _, expected)| *expected == Expected::Refused) {
        let mut seen = as_planned();
        at(&mut seen, *who, *what).answer = Answer::Accepted;
        assert_eq!(verdict(&seen), (Verdict::Broken, vec![(*who, *what)]));
    }
}

#[test]
fn every_write_of_a_live_holder_that_is_refused_breaks_it() {
    let accepted = CHECKS.iter().filter(|(_, _, expected)| *expected == Expected::Accepted);
    for (who, what, _) in accepted {
        let mut seen = as_planned();
        at(&mut seen, *who, *what).answer = Answer::Stale;
        assert_eq!(verdict(&seen), (Verdict::Broken, vec![(*who, *what)]));
    }
}

#[test]
fn a_refusal_after_the_lease_had_time_to_run_out_proves_nothing() {
    let mut seen = as_planned();
    let late = at(&mut seen, Who::HolderLive, What::LockRenew);
    (late.answer, late.lease_age) = (Answer::Stale, TTL);
    assert_eq!(verdict(&seen), (Verdict::Unknown, vec![(Who::HolderLive, What::LockRenew)]));
    // Nor does it prove that two had the lock at once.
    at(&mut seen, Who::ContenderEarly, What::LockAcquire).answer = Answer::Accepted;
    assert_eq!(verdict(&seen).0, Verdict::Unknown);
}

#[test]
fn a_grant_while_the_holder_holds_breaks_it() {
    for what in [What::LockAcquire, What::JobClaim] {
        let mut seen = as_planned();
        at(&mut seen, Who::ContenderEarly, what).answer = Answer::Accepted;
        assert_eq!(verdict(&seen), (Verdict::Broken, vec![(Who::ContenderEarly, what)]));
    }
}

#[test]
fn a_fence_that_does_not_grow_breaks_it() {
    for what in [What::LockAcquire, What::JobClaim] {
        for fence in [Some(HOLDERS_FENCE), Some(HOLDERS_FENCE - 1), None] {
            let mut seen = as_planned();
            at(&mut seen, Who::Contender, what).fence = fence;
            assert_eq!(verdict(&seen), (Verdict::Broken, vec![(Who::Contender, what)]));
        }
    }
}

#[test]
fn a_contender_whose_work_does_not_count_breaks_it() {
    for what in [What::RunOutput, What::LedgerOrder] {
        let mut seen = as_planned();
        at(&mut seen, Who::Afterwards, what).answer = Answer::Spoilt;
        assert_eq!(verdict(&seen), (Verdict::Broken, vec![(Who::Afterwards, what)]));
    }
}

#[test]
fn what_was_not_seen_or_not_answered_leaves_it_open() {
    for (who, what, _) in CHECKS {
        let mut seen = as_planned();
        at(&mut seen, who, what).answer = Answer::Unclear;
        assert_eq!(verdict(&seen), (Verdict::Unknown, vec![(who, what)]));
        seen.retain(|seen| (seen.who, seen.what) != (who, what));
        assert_eq!(verdict(&seen), (Verdict::Unknown, vec![(who, what)]));
    }
    assert_eq!(verdict(&[]).0, Verdict::Unknown);
    assert_eq!(overall(&[]), Verdict::Unknown);
}

#[test]
fn of_many_answers_the_worst_counts_and_is_shown() {
    let mut seen = as_planned();
    let again = Seen {
        answer: Answer::Accepted,
        words: "200".to_owned(),
        ..at(&mut seen, Who::HolderLate, What::JobComplete).clone()
    };
    seen.insert(0, again);
    let rows = judge(&seen, TTL);
    let row = rows.iter().find(|row| row.finding == Finding::Broken).unwrap();
    assert_eq!((row.times, row.seen.as_deref()), (2, Some("200")));
    assert_eq!(
        sentence(&rows, Some(Duration::from_millis(1_700))),
        "broken: after a pause of 1700 ms, 6 of 7 late writes were refused. \
         Not as it must be: holder, late: job complete"
    );
}
