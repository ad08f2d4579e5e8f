//! Permits: reserved, renewed, settled, released, expired.

use std::time::Duration;

use futures_util::future::join_all;
use interlock_model::Fence;
use interlock_model::budget::{Period, PermitState};

use super::Subject;
use super::scene::acme;
use super::spending::{Request, Spending, TTL, amount, document, numbers, request};
use crate::StoreError;
use crate::budgets::{BudgetEventKind, Reserved};
use crate::verbs::{FindDue, ListBudgetEvents};

/// Of 500 reservations at once, exactly as many are granted as the budget allows.
pub async fn reservations_at_once_never_exceed_the_amount(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1.37", Period::Day)).await;
    let requests: Vec<_> = (0..500).map(|number| request(&format!("r{number}"), "0.01")).collect();
    let answers = join_all(requests.iter().map(|request| spending.ask(request))).await;
    let granted = answers.iter().filter(|answer| matches!(answer, Ok(Reserved::Granted { .. }))).count();
    let exhausted = answers.iter().filter(|answer| matches!(answer, Ok(Reserved::Exhausted { .. }))).count();
    assert_eq!((granted, exhausted), (137, 363));
    let mut fences: Vec<_> = answers
        .iter()
        .filter_map(|answer| match answer {
            Ok(Reserved::Granted { permit, .. }) => Some(permit.fence),
            _ => None,
        })
        .collect();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 137, "each permit has a fence of its own");
    assert!(fences.iter().all(|fence| *fence > Fence::NONE));
}

pub async fn the_first_reservation_of_a_new_key_is_held_to_the_amount(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1", Period::Day)).await;
    for key in [None, Some("ann"), Some("bob")] {
        let with_key = |id: &str, limit: &str| Request {
            key,
            ..request(&format!("{id}{}", key.unwrap_or("none")), limit)
        };
        let state = spending.exhausted(&with_key("r1", "1.000001")).await;
        assert_eq!(numbers(&state), ["0", "0", "0", "0", "1"], "a new key is neither full nor free");
        spending.granted(&with_key("r2", "1")).await;
        spending.exhausted(&with_key("r3", "0.000001")).await;
    }
}

pub async fn what_is_left_is_granted_if_that_is_enough(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1", Period::Total)).await;
    let in_part = |id: &str, limit: &str, least: &str| Request { least: amount(least), ..request(id, limit) };
    // Worst cases reserve what is left, and the last of them does not find a budget that is full and unspent.
    let (first, _) = spending.granted(&in_part("r1", "0.7", "0.1")).await;
    let (second, state) = spending.granted(&in_part("r2", "0.7", "0.1")).await;
    assert_eq!((first.granted, second.granted), (amount("0.7"), amount("0.3")));
    assert_eq!(numbers(&state), ["0", "1", "0", "0", "0"]);
    spending.exhausted(&in_part("r3", "0.7", "0.1")).await;
    spending.settle(&first, "0.2").await.unwrap();
    let (third, _) = spending.granted(&in_part("r4", "0.7", "0.5")).await;
    assert_eq!(third.granted, amount("0.5"), "what was not spent is free again");
}

pub async fn the_same_request_gets_the_same_permit(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1", Period::Total)).await;
    let (permit, _) = spending.granted(&request("r1", "0.6")).await;
    let again = spending.ask(&request("r1", "0.6")).await.unwrap();
    let Reserved::Granted { permit: same, state, is_replay } = again else { panic!("it was granted") };
    assert_eq!((&same, is_replay, state.remaining), (&permit, true, amount("0.4")));
    let others = [
        request("r1", "0.5"),
        Request { least: amount("0.1"), ..request("r1", "0.6") },
        Request { key: Some("ann"), ..request("r1", "0.6") },
    ];
    for other in others {
        let refused = spending.ask(&other).await;
        assert!(
            matches!(&refused, Err(StoreError::Conflict(why)) if why.contains("another amount")),
            "{refused:?}"
        );
    }
    // What was reserved stays so until it is known what was spent.
    subject.elapse(TTL).await;
    spending.expire().await;
    let late = spending.ask(&request("r1", "0.6")).await.unwrap();
    assert!(matches!(late, Reserved::Granted { permit, is_replay: true, .. } if permit.fence == same.fence));
    spending.settle(&permit, "0.1").await.unwrap();
    let refused = spending.ask(&request("r1", "0.6")).await;
    assert!(matches!(&refused, Err(StoreError::Conflict(why)) if why.contains("was settled")), "{refused:?}");
}

pub async fn a_permit_is_settled_once(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1", Period::Total)).await;
    let (permit, _) = spending.granted(&request("r1", "0.6")).await;
    let first = spending.settle(&permit, "0.2").await.unwrap();
    assert_eq!(numbers(&first.state), ["0.2", "0", "0", "0", "0.8"]);
    let second = spending.settle(&permit, "0.2").await.unwrap();
    assert_eq!((second.permit, second.state), (first.permit, first.state));
    assert_eq!((first.has_ended, second.has_ended), (true, false));
    let other = spending.settle(&permit, "0.3").await;
    assert!(
        matches!(&other, Err(StoreError::Conflict(why)) if why.contains("settled with 0.2")),
        "{other:?}"
    );
    let released = spending.release(&permit).await.expect("clients release whatever happened before");
    assert_eq!((released.permit.state, released.state), (PermitState::Settled, first.state));
    let unknown = spending.settle(&unknown_permit(&permit), "0.1").await;
    assert!(matches!(unknown, Err(StoreError::NotFound { what: "permit", .. })), "{unknown:?}");
}

/// The same, under an id that was never granted.
fn unknown_permit(permit: &interlock_model::budget::Permit) -> interlock_model::budget::Permit {
    interlock_model::budget::Permit { id: super::scene::name("unknown"), ..permit.clone() }
}

pub async fn settling_more_than_was_reserved_is_counted_as_overdraft(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1", Period::Total)).await;
    let (permit, _) = spending.granted(&request("r1", "0.6")).await;
    let change = spending.settle(&permit, "2.5").await.unwrap();
    assert_eq!(numbers(&change.state), ["2.5", "0", "0", "1.9", "0"]);
    assert_eq!(change.permit.overdraft(), amount("1.9"));
    spending.exhausted(&request("r2", "0.000001")).await;
}

pub async fn a_released_permit_gives_its_amount_back_once(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1", Period::Total)).await;
    let (permit, _) = spending.granted(&request("r1", "0.6")).await;
    for _ in 0..2 {
        let change = spending.release(&permit).await.unwrap();
        assert_eq!((change.permit.state, change.state.remaining), (PermitState::Released, amount("1")));
    }
    // Money that is gone is counted, though nothing was reserved for it any more.
    let change = spending.settle(&permit, "0.2").await.unwrap();
    assert_eq!(numbers(&change.state), ["0.2", "0", "0", "0.2", "0.8"]);
    assert_eq!(
        numbers(&spending.settle(&permit, "0.2").await.unwrap().state),
        ["0.2", "0", "0", "0.2", "0.8"]
    );
}

pub async fn a_permit_that_expires_counts_as_spent_until_it_is_settled(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1", Period::Total)).await;
    let (late, _) = spending.granted(&request("r1", "0.5")).await;
    let (lost, _) = spending.granted(&request("r2", "0.3")).await;
    assert_eq!(spending.expire().await.expired, 0, "it is not time yet");
    let due = spending.store.call(FindDue { limit: 10 }).await.unwrap();
    assert!(due.budgets.is_empty() && due.next_in.is_some_and(|next| next <= TTL), "{due:?}");
    subject.elapse(TTL).await;
    assert_eq!(spending.store.call(FindDue { limit: 10 }).await.unwrap().budgets, [acme()]);
    assert_eq!(spending.expire().await.expired, 2);
    assert_eq!(spending.store.call(FindDue { limit: 10 }).await.unwrap().budgets, []);
    let state = spending.state(late.granted_at, None).await;
    assert_eq!(numbers(&state), ["0", "0", "0.8", "0", "0.2"], "counted apart");
    spending.exhausted(&request("r3", "0.3")).await;
    let change = spending.settle(&late, "0.1").await.unwrap();
    assert_eq!(numbers(&change.state), ["0.1", "0", "0.3", "0", "0.6"]);
    let change = spending.release(&lost).await.unwrap();
    assert_eq!(numbers(&change.state), ["0.1", "0", "0", "0", "0.9"]);
    assert_eq!((spending.read().await.open, spending.read().await.ended), (0, 2));
}

pub async fn a_reservation_ends_permits_that_have_expired(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1", Period::Total)).await;
    spending.granted(&request("r1", "0.9")).await;
    subject.elapse(TTL).await;
    let state = spending.exhausted(&request("r2", "0.2")).await;
    assert_eq!(numbers(&state), ["0", "0", "0.9", "0", "0.1"], "no loop has run");
}

pub async fn a_renewed_permit_lasts_and_one_that_has_expired_is_not_renewed(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1", Period::Total)).await;
    let (permit, _) = spending.granted(&request("r1", "0.9")).await;
    subject.elapse(TTL / 2).await;
    let renewed = spending.renew(&permit, TTL * 2).await.unwrap().permit;
    assert!(renewed.expires_at > permit.expires_at);
    assert_eq!((renewed.fence, renewed.granted), (permit.fence, permit.granted));
    subject.elapse(TTL).await;
    assert_eq!(spending.expire().await.expired, 0);
    subject.elapse(TTL * 2).await;
    for _ in 0..2 {
        let refused = spending.renew(&permit, TTL).await;
        assert!(
            matches!(&refused, Err(StoreError::Conflict(why)) if why.contains("has expired")),
            "{refused:?}"
        );
        spending.expire().await;
    }
    spending.settle(&permit, "0.1").await.expect("a late settlement counts");
    let refused = spending.renew(&permit, TTL).await;
    assert!(matches!(&refused, Err(StoreError::Conflict(why)) if why.contains("was settled")), "{refused:?}");
}

pub async fn a_threshold_warns_once_in_a_window(subject: &mut dyn Subject) {
    let mut watched = document("1", Period::Hour);
    watched.warn_at = vec![50, 80, 100];
    let spending = Spending::of(subject, watched).await;
    let (first, _) = spending.granted(&request("r1", "0.4")).await;
    let (second, _) = spending.granted(&request("r2", "0.4")).await;
    let percents = |warnings: &[interlock_model::budget::Warning]| {
        warnings.iter().map(|warning| warning.percent).collect::<Vec<_>>()
    };
    assert_eq!(percents(&spending.settle(&first, "0.4").await.unwrap().warnings), [0; 0]);
    assert_eq!(percents(&spending.settle(&second, "0.4").await.unwrap().warnings), [50, 80]);
    assert_eq!(percents(&spending.settle(&second, "0.4").await.unwrap().warnings), [0; 0]);
    spending.granted(&request("r3", "0.2")).await;
    subject.elapse(TTL).await;
    let expired = spending.expire().await;
    let of_budget: Vec<_> =
        expired.warnings.iter().map(|(name, warning)| (name.as_str(), warning.percent)).collect();
    assert_eq!(of_budget, [("llm", 100)], "what expires unsettled counts as spent");
    let list = ListBudgetEvents { tenant: acme(), name: spending.name() };
    let events = spending.store.call(list).await.unwrap();
    assert_eq!(spending.read().await.warnings, 3);
    let warned: Vec<_> = events
        .iter()
        .map(|event| match &event.kind {
            BudgetEventKind::Warned(warning) => (warning.percent, warning.used.to_string()),
            BudgetEventKind::Adjusted(_) => panic!("nothing was adjusted"),
        })
        .collect();
    assert_eq!(warned, [(100, "1".to_owned()), (80, "0.8".to_owned()), (50, "0.8".to_owned())]);
    subject.elapse(Duration::from_hours(1)).await;
    let (next, _) = spending.granted(&request("r4", "0.5")).await;
    assert_eq!(percents(&spending.settle(&next, "0.5").await.unwrap().warnings), [50], "a new window");
}

pub async fn what_was_reserved_survives_a_reopening(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1", Period::Total)).await;
    let (permit, _) = spending.granted(&request("r1", "0.6")).await;
    let Spending { store, tenant, budget } = spending;
    drop(store);
    subject.reopen().await;
    let spending = Spending { store: subject.store(), tenant, budget };
    assert_eq!(numbers(&spending.state(permit.granted_at, None).await), ["0", "0.6", "0", "0", "0.4"]);
    spending.settle(&permit, "0.5").await.unwrap();
    assert_eq!(spending.exhausted(&request("r2", "0.6")).await.remaining, amount("0.5"));
}

pub async fn large_amounts_are_not_rounded(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("8999999999.999999", Period::Total)).await;
    let (permit, _) = spending.granted(&request("r1", "8999999999.999998")).await;
    spending.exhausted(&request("r2", "0.000002")).await;
    let (last, state) = spending.granted(&request("r3", "0.000001")).await;
    assert_eq!((last.granted, state.remaining), (amount("0.000001"), amount("0")));
    let change = spending.settle(&permit, "8999999999.999997").await.unwrap();
    assert_eq!(change.state.remaining, amount("0.000001"));
    let change = spending.settle(&last, "8999999999").await.unwrap();
    assert_eq!(change.state.ledger.spent, amount("8999999999.999999"), "a sum stops at the largest amount");
    assert_eq!(change.state.ledger.overdraft, amount("8999999998.999999"));
}
