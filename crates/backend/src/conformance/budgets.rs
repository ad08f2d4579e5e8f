//! Budgets: their documents, windows and adjustments.

use std::time::Duration;

use interlock_model::Timestamp;
use interlock_model::budget::{
    BUDGETS_MAX, BudgetDocument, BudgetGroup, EVENTS_MAX, GROUP_CHECKED_EVERY, INCREASES_MAX, Period,
    SETTLED_KEPT,
};
use interlock_model::doctor::Invariant;
use interlock_model::run::Ending;

use super::Subject;
use super::scene::{Scene, acme, ending, globex, name};
use super::spending::{Spending, amount, document, numbers, request};
use crate::budgets::{Adjusted, Adjustment, BudgetEventKind, Reserved};
use crate::inspection::Inspect;
use crate::verbs::{
    AdjustBudget, DeleteBudget, ListBudgetEvents, ListBudgetGroups, ListBudgets, ReadBudget, SaveBudget,
};
use crate::{PageRequest, StoreError};

pub async fn a_budget_is_replaced_only_over_the_revision_that_was_read(subject: &mut dyn Subject) {
    let mut spending = Spending::of(subject, document("20", Period::Day)).await;
    assert_eq!((spending.budget.revision, spending.budget.created_at), (1, spending.budget.updated_at));
    subject.elapse(Duration::from_millis(5)).await;
    let first = spending.budget.clone();
    spending.save(document("30", Period::Day)).await;
    assert_eq!((spending.budget.revision, spending.budget.created_at), (2, first.created_at));
    assert_eq!(spending.read().await, spending.budget);
    let stale = SaveBudget {
        tenant: acme(),
        name: spending.name(),
        document: document("40", Period::Day),
        expected: Some(first.revision),
    };
    let refused = spending.store.call(stale.clone()).await;
    assert!(
        matches!(&refused, Err(StoreError::Conflict(why)) if why.contains("revision 2, not 1")),
        "{refused:?}"
    );
    let missing = SaveBudget { name: name("other"), ..stale };
    assert!(matches!(spending.store.call(missing).await, Err(StoreError::NotFound { what: "budget", .. })));
    let delete = |expected| DeleteBudget { tenant: acme(), name: name("llm"), expected };
    assert!(matches!(spending.store.call(delete(Some(1))).await, Err(StoreError::Conflict(_))));
    assert_eq!(spending.read().await, spending.budget, "nothing of it was done");
    spending.store.call(delete(Some(2))).await.unwrap();
    assert!(matches!(spending.store.call(delete(None)).await, Err(StoreError::NotFound { .. })));
}

pub async fn budgets_are_listed_by_name_and_survive_a_reopening(subject: &mut dyn Subject) {
    for budget in ["tokens", "llm", "llm-2"] {
        Spending::named(subject, budget, document("1", Period::Total)).await;
    }
    subject.reopen().await;
    let listed = subject.store().call(ListBudgets { tenant: acme() }).await.unwrap();
    let names: Vec<_> = listed.iter().map(|found| found.budget.name.as_str().to_owned()).collect();
    assert_eq!(names, ["llm", "llm-2", "tokens"]);
    assert_eq!(subject.store().call(ListBudgets { tenant: globex() }).await, Ok(Vec::new()));
    let foreign = ReadBudget { tenant: globex(), name: name("llm") };
    assert_eq!(subject.store().call(foreign).await, Ok(None), "another tenant's budget is not there");
}

pub async fn a_tenant_has_a_bounded_number_of_budgets(subject: &mut dyn Subject) {
    for number in 0..BUDGETS_MAX {
        Spending::named(subject, &format!("b{number}"), document("1", Period::Total)).await;
    }
    let save = |budget: &str, tenant| SaveBudget {
        tenant,
        name: name(budget),
        document: document("2", Period::Total),
        expected: None,
    };
    let refused = subject.store().call(save("onemore", acme())).await;
    assert!(matches!(&refused, Err(StoreError::Conflict(why)) if why.contains("64")), "{refused:?}");
    subject.store().call(save("b7", acme())).await.expect("one that exists is replaced");
    subject.store().call(save("onemore", globex())).await.expect("another tenant has its own");
}

pub async fn a_deleted_budget_takes_its_ledger_and_permits_with_it(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1", Period::Total)).await;
    let (permit, _) = spending.granted(&request("r1", "1")).await;
    let delete = DeleteBudget { tenant: acme(), name: spending.name(), expected: None };
    spending.store.call(delete).await.unwrap();
    assert!(matches!(spending.settle(&permit, "1").await, Err(StoreError::NotFound { what: "budget", .. })));
    let again = Spending::of(subject, document("1", Period::Total)).await;
    assert!(matches!(again.settle(&permit, "1").await, Err(StoreError::NotFound { what: "permit", .. })));
    let (_, state) = again.granted(&request("r1", "0.6")).await;
    assert_eq!(numbers(&state), ["0", "0.6", "0", "0", "0.4"]);
    subject.elapse(Duration::from_hours(2)).await;
    assert_eq!(again.expire().await.expired, 1, "only that of the new one");
}

pub async fn what_was_reserved_in_one_window_is_settled_there(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1", Period::Hour)).await;
    let mut long = request("r1", "0.7");
    long.ttl = Duration::from_hours(1);
    let (permit, _) = spending.granted(&long).await;
    let first = spending.window(permit.granted_at);
    subject.elapse(Duration::from_mins(50)).await;
    spending.renew(&permit, Duration::from_hours(1)).await.unwrap();
    subject.elapse(Duration::from_mins(30)).await;
    let (next, state) = spending.granted(&request("r2", "1")).await;
    assert_ne!(next.window, first, "an hour has passed");
    assert_eq!(numbers(&state), ["0", "1", "0", "0", "0"], "the new window has the whole amount");
    let change = spending.settle(&permit, "0.5").await.unwrap();
    assert_eq!(
        (change.permit.window, numbers(&change.state)),
        (first, ["0.5", "0", "0", "0", "0.5"].map(str::to_owned))
    );
    assert_eq!(numbers(&spending.state(next.granted_at, None).await), ["0", "1", "0", "0", "0"]);
}

pub async fn only_the_window_of_this_time_and_document_is_reserved_in(subject: &mut dyn Subject) {
    let mut spending = Spending::of(subject, document("1", Period::Day)).await;
    let (permit, _) = spending.granted(&request("r1", "0.1")).await;
    let now = permit.granted_at;
    let until = permit.window.until.expect("a day ends");
    let day = Duration::from_hours(24);
    for (other, which) in [(until, "the next"), (permit.window.from - day, "the last")] {
        let verb = spending.verb(&request("r2", "0.1"), spending.window(other));
        let answer = spending.store.call(verb).await.unwrap();
        assert!(
            matches!(answer, Reserved::WindowOver { now: by } if by >= now && by < now + day),
            "{which}: {answer:?}"
        );
    }
    // The wall clock decides, which may be ahead of the store's.
    let mut ahead = spending.verb(&request("r3", "0.1"), spending.window(until));
    ahead.wall_lead = 24 * 3_600_000;
    assert!(matches!(spending.store.call(ahead).await, Ok(Reserved::Granted { .. })));
    let before = spending.verb(&request("r4", "0.1"), spending.window(now));
    spending
        .save(BudgetDocument { timezone: Some("Asia/Tokyo".to_owned()), ..document("1", Period::Day) })
        .await;
    assert_eq!(spending.store.call(before).await, Ok(Reserved::Outdated));
}

pub async fn each_run_has_its_own_amount_as_long_as_it_is_live(subject: &mut dyn Subject) {
    let scene = Scene::with_cap(subject, 10).await;
    let spending = Spending::of(subject, document("1", Period::Run)).await;
    let (one, other) = (scene.started(&acme()).await, scene.started(&acme()).await);
    let of_run =
        |id: &str, run, limit: &str| super::spending::Request { run: Some(run), ..request(id, limit) };
    spending.granted(&of_run("r1", one, "0.8")).await;
    let (_, state) = spending.granted(&of_run("r2", other, "0.9")).await;
    assert_eq!(state.remaining, amount("0.1"));
    spending.exhausted(&of_run("r3", one, "0.3")).await;
    let missing = interlock_model::RunId::new(Timestamp::from_millis(1_794_700_000_000), [9; 10]);
    let answer = spending.ask(&of_run("r4", missing, "0.1")).await.unwrap();
    assert_eq!(answer, Reserved::RunOver { is_known: false });
    let _ = scene.commit(ending(&scene.taken(&acme(), one).await, Ending::Succeeded)).await.unwrap();

    let answer = spending.ask(&of_run("r5", one, "0.1")).await.unwrap();
    assert_eq!(answer, Reserved::RunOver { is_known: true });
}

pub async fn the_ledger_of_a_window_goes_with_its_last_permit(subject: &mut dyn Subject) {
    let mut by_key = document("1", Period::Hour);
    by_key.key = Some("input.user".to_owned());
    let spending = Spending::of(subject, by_key).await;
    let (ann, bob) = (
        super::spending::Request { key: Some("ann"), ..request("r1", "0.5") },
        super::spending::Request { key: Some("bob"), ..request("r2", "0.2") },
    );
    let (permit, _) = spending.granted(&ann).await;
    spending.granted(&bob).await;
    spending.settle(&permit, "0.4").await.unwrap();
    let groups = async || {
        let verb = ListBudgetGroups {
            tenant: acme(),
            name: spending.name(),
            window: permit.window.to_string(),
            wall_lead: 0,
            only: None,
            page: PageRequest { limit: 1, after: None },
        };
        let mut found = Vec::new();
        let mut page = spending.store.call(verb.clone()).await.unwrap();
        loop {
            found.extend(page.items.into_iter().map(|item| item.group.key().unwrap_or_default()));
            let Some(after) = page.next else { return found };
            let page_of = PageRequest { limit: 1, after: Some(after) };
            page = spending.store.call(ListBudgetGroups { page: page_of, ..verb.clone() }).await.unwrap();
        }
    };
    assert_eq!((groups().await, spending.read().await.groups), (vec!["ann".to_owned(), "bob".to_owned()], 2));
    // That of ann is settled and forgotten; that of bob expired, and may still be settled.
    for _ in 0..3 {
        subject.elapse(SETTLED_KEPT + GROUP_CHECKED_EVERY).await;
        spending.expire().await;
    }
    assert_eq!((groups().await, spending.read().await.groups), (vec!["bob".to_owned()], 1));
    let drift = Inspect {
        tenant: acme(),
        invariant: Invariant::BudgetDrift,
        grace: Duration::ZERO,
        page: PageRequest { limit: 100, after: None },
    };
    assert_eq!(spending.store.call(drift).await.unwrap().items, []);
}

fn adjustment(id: &str, delta: &str) -> Adjustment {
    Adjustment {
        id: name(id),
        by: "ann".to_owned(),
        delta: delta.parse().expect("deltas in rules are valid"),
        reason: "a wrong \"price\"".to_owned(),
        until: None,
        group: None,
    }
}

async fn adjust(spending: &Spending, now: Timestamp, adjustment: Adjustment) -> Result<Adjusted, StoreError> {
    let adjust = AdjustBudget {
        tenant: acme(),
        name: spending.name(),
        revision: spending.budget.revision,
        window: spending.window(now),
        adjustment,
        wall_lead: 0,
    };
    spending.store.call(adjust).await
}

pub async fn an_adjustment_changes_what_may_be_spent_and_is_kept(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1", Period::Total)).await;
    let (permit, _) = spending.granted(&request("r1", "1")).await;
    spending.settle(&permit, "100").await.unwrap();
    spending.exhausted(&request("r2", "0.1")).await;
    let now = permit.granted_at;
    let done = adjust(&spending, now, adjustment("a1", "99.5")).await.unwrap();
    let Adjusted::Done { state } = done else { panic!("expected an adjustment, got {done:?}") };
    assert_eq!(
        (state.limit, numbers(&state)),
        (amount("100.5"), ["100", "0", "0", "99", "0.5"].map(str::to_owned))
    );
    let again = adjust(&spending, now, adjustment("a1", "99.5")).await.unwrap();
    assert_eq!(again, Adjusted::Done { state }, "the same request changes nothing more");
    let taken = adjust(&spending, now, adjustment("a2", "-0.2")).await.unwrap();
    assert!(matches!(taken, Adjusted::Done { state } if state.remaining == amount("0.3")), "{taken:?}");
    spending.exhausted(&request("r3", "0.4")).await;
    spending.granted(&request("r4", "0.3")).await;
    let list = ListBudgetEvents { tenant: acme(), name: spending.name() };
    let events = spending.store.call(list).await.unwrap();
    let kept: Vec<_> = events.into_iter().map(|event| event.kind).collect();
    let expected = [adjustment("a2", "-0.2"), adjustment("a1", "99.5")].map(BudgetEventKind::Adjusted);
    assert_eq!(kept, expected, "the newest first");
}

pub async fn a_temporary_increase_ends_by_itself(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1", Period::Total)).await;
    let (permit, _) = spending.granted(&request("r1", "1")).await;
    let now = permit.granted_at;
    let until = Some(now + Duration::from_mins(10));
    let ann = BudgetGroup::new(None, Some("ann")).unwrap();
    let increase = Adjustment { until, ..adjustment("a1", "2") };
    let done = adjust(&spending, now, increase).await.unwrap();
    assert!(matches!(done, Adjusted::Done { state } if state.limit == amount("3")), "{done:?}");
    let of_ann = Adjustment { until, group: Some(ann.clone()), ..adjustment("a2", "5") };
    let _ = adjust(&spending, now, of_ann).await.unwrap();
    assert_eq!(spending.of_group(now, ann).await.limit, amount("8"));
    spending.granted(&request("r2", "1")).await;
    subject.elapse(Duration::from_mins(10)).await;
    let state = spending.exhausted(&request("r3", "0.1")).await;
    assert_eq!((state.limit, state.remaining), (amount("1"), amount("0")), "what was granted before stays");
}

pub async fn adjustments_and_increases_are_bounded(subject: &mut dyn Subject) {
    let spending = Spending::of(subject, document("1", Period::Total)).await;
    let now = spending.budget.updated_at;
    for number in 0..EVENTS_MAX + 3 {
        let _ = adjust(&spending, now, adjustment(&format!("a{number}"), "0.001")).await.unwrap();
    }
    let list = ListBudgetEvents { tenant: acme(), name: spending.name() };
    let events = spending.store.call(list).await.unwrap();
    assert_eq!(events.len(), EVENTS_MAX);
    let newest = adjustment(&format!("a{}", EVENTS_MAX + 2), "0.001");
    assert_eq!(events[0].kind, BudgetEventKind::Adjusted(newest));
    let increase = |number: usize| Adjustment {
        until: Some(now + Duration::from_mins(10)),
        ..adjustment(&format!("i{number}"), "1")
    };
    for number in 0..INCREASES_MAX {
        let _ = adjust(&spending, now, increase(number)).await.unwrap();
    }
    let refused = adjust(&spending, now, increase(99)).await;
    assert!(matches!(&refused, Err(StoreError::Conflict(why)) if why.contains("16")), "{refused:?}");
    subject.elapse(Duration::from_mins(10)).await;
    let later = Adjustment { until: Some(now + Duration::from_mins(30)), ..increase(99) };
    let _ = adjust(&spending, now, later).await.expect("those that are over make room");
}
