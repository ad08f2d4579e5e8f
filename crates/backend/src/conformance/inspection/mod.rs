//! Checks and repairs: each rule breaks one invariant among healthy rows, finds the violation and repairs it.
//!
//! Repaired rows must work: afterwards every run of the fixture is completed.

mod completion;
mod fixture;
mod local;

use crate::verbs::DeleteDeadLetter;
use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use interlock_model::TenantId;
use interlock_model::doctor::{Finding, Invariant, Realm, RepairOutcome};

pub use fixture::Fixture;
pub use local::LocalRows;

use super::Subject;
use super::scene::{Scene, acme, globex};
use crate::inspection::{Inspect, InspectUnlisted, KEYS_JUDGED_FOR, OF_UNLISTED, Repair};
use crate::{Page, PageRequest, Store, StoreError};

/// What is late by less is not late.
const GRACE: Duration = Duration::from_secs(30);

/// Rows of a page: so few that every look takes several.
const PAGE: usize = 3;

/// What came of breaking an invariant.
#[derive(Debug)]
pub enum Planted {
    /// It is broken, in this subject and in no other.
    In(String),
    /// It cannot be broken in this backend: what would disagree is not written down twice.
    CannotBe,
}

/// How a backend's rows are spoilt behind its back.
#[async_trait]
pub trait Plant: Subject {
    /// Breaks this invariant in the rows of `fixture`, and nothing else.
    ///
    /// | fault | what is done |
    /// |---|---|
    /// | `slot_without_run` | a slot for `missing`, which the count of slots includes |
    /// | `run_without_slot` | the slot of `delayed` is deleted, and the count excludes it |
    /// | `slot_count_drift` | the count says more than there are; subject: the tenant |
    /// | `limit_slot_without_run` | a slot of the limit for `missing`, which the count of the group includes |
    /// | `run_without_limit_slot` | the slot of `alone` is deleted, and its group counts none |
    /// | `limit_count_drift` | the group counts more live runs than there are; subject: `one/api` |
    /// | `fair_queue_drift` | a fair group `ghost` of the group `api` says that it has waiting runs; subject: `one/api` |
    /// | `queued_run_in_no_queue` | the entry of the last of `waiting` is deleted, and not counted |
    /// | `limit_queue_entry_without_run` | an entry for `missing` behind the others, which the count includes |
    /// | `debounced_run_without_timer` | the timer of `debounced` is deleted |
    /// | `debounce_entry_without_run` | an entry for `missing` beside that of `debounced` |
    /// | `startable_run_waits` | the limit of `one` is raised, and nothing granted; subject: the first of `waiting` |
    /// | `child_without_step` | the row by which the step waits for `child` is deleted |
    /// | `step_without_child` | the start of `wanted` is deleted; subject: `<run>/<child>` |
    /// | `child_start_not_due` | the start of `wanted` is in no index |
    /// | `event_waiter_not_indexed` | the entry of `awaiting` is deleted; subject: `<run>/wait` |
    /// | `event_waiter_without_step` | an entry of `missing`; subject: the entry |
    /// | `key_without_run` | `key` names `missing`; subject: `<workflow>/<key>` |
    /// | `reservation_left_behind` | the reservation of `reserved` ended an hour ago; subject: `<workflow>/<key>` |
    /// | `lease_without_job` | a lease, with its place in the index, on the job of `ended` |
    /// | `lease_not_indexed` | the lease of `leased` is in no index by its end |
    /// | `job_in_no_index` | `queued` is deleted from its queue |
    /// | `queue_entry_without_job` | the job of `ended` stands in its queue |
    /// | `job_not_listed` | `queued` is deleted from the list of jobs |
    /// | `job_of_ended_run` | the job of `ended` is open again, and in its queue |
    /// | `step_without_job` | all rows of `queued` are deleted, and its step still names it |
    /// | `timer_overdue` | `delayed` was due an hour ago, by its timer and by its head |
    /// | `timer_missing` | the timer of `delayed` is deleted |
    /// | `timer_without_run` | a timer of `missing`, in an hour |
    /// | `inbox_not_drained` | the ready mark of `posted` is deleted |
    /// | `ready_without_run` | a ready mark of `missing` |
    /// | `run_hold_without_holder` | the lease on `held` expired an hour ago, and its row still exists |
    /// | `run_quarantined` | `posted` is quarantined and not marked ready |
    /// | `approval_of_ended_run` | an open and listed approval `orphan`, of the run of `ended` |
    /// | `approval_not_listed` | `asking` is deleted from the list of open approvals |
    /// | `kept_result_not_due` | the result of `kept` has no time of its next delivery |
    /// | `lock_debt` | the lease on `lock` expired an hour ago, and its row still exists; subject: the resource |
    /// | `lock_tally_drift` | the numbers of locks are others than there are; subject: the tenant |
    /// | `lock_not_listed` | `lock` is deleted from the list of locks; subject: the resource |
    /// | `budget_drift` | the ledger of `budget` has more reserved than its permits; subject: the budget |
    /// | `permit_not_due` | the permit of `budget` is in no index by its end; subject: `<budget>/<permit>` |
    /// | `permit_without_job` | the permit of `budget` is that of the job of `ended`; subject: `<budget>/<permit>` |
    /// | `permit_without_budget` | the row of `budget` is deleted; subject: the budget |
    /// | `row_damaged` | what stands for the step of `leased` is no step; subject: the backend's own |
    /// | `dead_letters_growing` | as many dead letters as the check reports; subject: the tenant |
    async fn plant(&mut self, fault: Invariant, fixture: &Fixture) -> Planted;
}

fn of_tenants() -> impl Iterator<Item = Invariant> {
    Invariant::ALL.iter().copied().filter(|invariant| invariant.realm() == Realm::Tenant)
}

/// Everything that is found of one tenant.
async fn look(store: &Store, tenant: &TenantId) -> Vec<Finding> {
    let mut found = Vec::new();
    for invariant in of_tenants() {
        let (tenant, page) = (tenant.clone(), PageRequest { limit: PAGE, after: None });
        let inspection = Inspect { tenant: tenant.clone(), invariant, grace: GRACE, page };
        let pages = all_pages(invariant, async |after| {
            let mut inspection = inspection.clone();
            inspection.page.after = after;
            store.call(inspection).await
        });
        found.extend(pages.await);
        if OF_UNLISTED.contains(&invariant) {
            found.extend(look_at_unlisted(store, Some(&tenant), invariant, PAGE).await);
        }
        assert!(found.iter().all(|finding| finding.tenant.as_ref() == Some(&tenant)), "{found:?}");
    }
    found
}

async fn look_at_unlisted(
    store: &Store,
    tenant: Option<&TenantId>,
    invariant: Invariant,
    limit: usize,
) -> Vec<Finding> {
    let page = PageRequest { limit, after: None };
    let inspection = InspectUnlisted { tenant: tenant.cloned(), invariant, grace: GRACE, page };
    all_pages(invariant, async |after| {
        let mut inspection = inspection.clone();
        inspection.page.after = after;
        store.call(inspection).await
    })
    .await
}

async fn all_pages(
    invariant: Invariant,
    read: impl AsyncFn(Option<String>) -> Result<Page<Finding>, StoreError>,
) -> Vec<Finding> {
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..10_000 {
        let page = read(after).await.expect("a look never fails for what it finds");
        for finding in &page.items {
            assert_eq!(finding.invariant, invariant);
            assert!(finding.detail.len() > 10, "{finding:?} has no detail");
        }
        found.extend(page.items);
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
    panic!("the look for {invariant} does not end");
}

fn names(found: &[Finding]) -> Vec<(Invariant, &str)> {
    found.iter().map(|finding| (finding.invariant, finding.subject.as_str())).collect()
}

async fn repair(store: &Store, invariant: Invariant, subject: &str) -> RepairOutcome {
    let subject = subject.to_owned();
    let repair = Repair { tenant: acme(), invariant, subject, grace: GRACE };
    store.call(repair.clone()).await.expect("the store is up")
}

/// Breaks the invariant and looks: it is the only one that is found, in its subject alone. None if it cannot be broken.
async fn spoilt(subject: &mut dyn Plant, fault: Invariant) -> Option<(Fixture, Finding)> {
    let fixture = Fixture::make(subject).await;
    let Planted::In(spoilt) = subject.plant(fault, &fixture).await else { return None };
    let store = subject.store();
    let mut found = look(&store, &acme()).await;
    assert_eq!(names(&found), [(fault, spoilt.as_str())]);
    assert_eq!(look(&store, &globex()).await, [], "another tenant's rows are as they were");
    Some((fixture, found.remove(0)))
}

/// Breaks the invariant, repairs it, and completes every run.
async fn is_found_and_repaired(subject: &mut dyn Plant, fault: Invariant) {
    let Some((fixture, finding)) = spoilt(subject, fault).await else { return };
    assert!(finding.is_repairable, "{finding:?}");
    let store = subject.store();
    assert_eq!(repair(&store, fault, &finding.subject).await, RepairOutcome::Repaired);
    assert_eq!(look(&store, &acme()).await, [], "the second look is clean");
    assert_eq!(repair(&store, fault, &finding.subject).await, RepairOutcome::NothingToDo);
    fixture.complete_all(subject).await;
}

/// Those that only people can repair.
const UNMENDABLE: [Invariant; 2] = [Invariant::RowDamaged, Invariant::DeadLettersGrowing];

macro_rules! faults {
    ($($rule:ident: $fault:ident,)*) => {
        $(pub async fn $rule(subject: &mut dyn Plant) {
            is_found_and_repaired(subject, Invariant::$fault).await;
        })*

        /// Those that a store can repair.
        const MENDABLE: &[Invariant] = &[$(Invariant::$fault,)*];
    };
}

faults! {
    a_slot_without_a_run_is_released: SlotWithoutRun,
    a_run_without_a_slot_is_given_one: RunWithoutSlot,
    a_wrong_count_of_slots_is_corrected: SlotCountDrift,
    a_slot_of_a_limit_without_a_run_is_released: LimitSlotWithoutRun,
    a_run_without_a_slot_of_its_limit_is_given_one: RunWithoutLimitSlot,
    a_wrong_count_of_a_group_is_corrected: LimitCountDrift,
    a_fair_queue_that_lists_other_groups_is_listed_again: FairQueueDrift,
    a_queued_run_in_no_queue_is_queued_again: QueuedRunInNoQueue,
    an_entry_of_a_run_that_does_not_wait_is_removed: LimitQueueEntryWithoutRun,
    a_debounced_run_without_a_timer_gets_one: DebouncedRunWithoutTimer,
    an_entry_of_a_run_that_is_not_debounced_is_removed: DebounceEntryWithoutRun,
    a_run_that_could_start_is_started: StartableRunWaits,
    a_child_that_no_step_waits_for_is_waited_for_again: ChildWithoutStep,
    a_step_that_waits_for_a_missing_child_gets_a_loss: StepWithoutChild,
    a_start_of_a_child_that_is_in_no_index_is_indexed: ChildStartNotDue,
    a_step_that_waits_for_a_key_is_indexed_again: EventWaiterNotIndexed,
    an_entry_of_a_step_that_waits_for_no_key_is_removed: EventWaiterWithoutStep,
    a_key_of_a_run_that_never_existed_is_deleted: KeyWithoutRun,
    an_abandoned_reservation_is_released: ReservationLeftBehind,
    a_lease_on_a_job_that_has_ended_is_removed: LeaseWithoutJob,
    a_lease_that_is_in_no_index_is_indexed: LeaseNotIndexed,
    an_open_job_in_no_queue_is_queued_again: JobInNoIndex,
    a_queue_entry_of_a_job_that_has_ended_is_removed: QueueEntryWithoutJob,
    a_job_that_is_not_listed_is_listed_again: JobNotListed,
    an_open_job_of_a_run_that_has_ended_is_ended: JobOfEndedRun,
    a_step_that_waits_for_a_missing_job_gets_a_loss: StepWithoutJob,
    a_run_that_was_due_long_ago_is_made_ready: TimerOverdue,
    a_timer_that_is_missing_is_set: TimerMissing,
    a_timer_of_a_missing_run_is_removed: TimerWithoutRun,
    a_run_with_events_in_its_inbox_is_made_ready: InboxNotDrained,
    a_ready_mark_of_a_missing_run_is_removed: ReadyWithoutRun,
    an_expired_run_lease_is_removed: RunHoldWithoutHolder,
    a_quarantined_run_is_tried_again: RunQuarantined,
    an_open_approval_of_a_run_that_has_ended_is_withdrawn: ApprovalOfEndedRun,
    an_open_approval_that_is_not_listed_is_listed_again: ApprovalNotListed,
    a_deferred_result_without_a_due_time_is_made_due: KeptResultNotDue,
    a_lock_lease_that_expired_long_ago_is_ended: LockDebt,
    a_wrong_count_of_locks_is_corrected: LockTallyDrift,
    a_held_lock_that_is_not_listed_is_listed_again: LockNotListed,
    a_budget_that_does_not_add_up_is_counted_anew: BudgetDrift,
    an_open_permit_that_never_expires_does_so_again: PermitNotDue,
    an_open_permit_of_a_job_that_has_ended_is_unsettled: PermitWithoutJob,
    permits_without_a_budget_are_removed: PermitWithoutBudget,
}

pub async fn in_a_healthy_store_nothing_is_found_and_nothing_is_repaired(subject: &mut dyn Plant) {
    let planted = MENDABLE.iter().chain(&UNMENDABLE).copied();
    assert!(planted.eq(of_tenants()), "every invariant of a tenant is broken by a rule");
    let fixture = Fixture::make(subject).await;
    let store = subject.store();
    for tenant in [acme(), globex()] {
        assert_eq!(look(&store, &tenant).await, []);
    }
    for invariant in of_tenants() {
        for named in fixture.subjects() {
            let repaired = repair(&store, invariant, &named).await;
            assert_eq!(repaired, RepairOutcome::NothingToDo, "{invariant} of {named}");
        }
    }
    assert_eq!(look(&store, &acme()).await, []);
    fixture.complete_all(subject).await;
}

pub async fn a_key_whose_run_may_have_been_forgotten_is_left_alone(subject: &mut dyn Plant) {
    let Some((_, finding)) = spoilt(subject, Invariant::KeyWithoutRun).await else { return };
    subject.elapse(KEYS_JUDGED_FOR + GRACE).await;
    let repaired = repair(&subject.store(), Invariant::KeyWithoutRun, &finding.subject).await;
    assert_eq!(repaired, RepairOutcome::NothingToDo);
}

pub async fn one_pass_over_all_tenants_finds_what_a_pass_over_each_finds(subject: &mut dyn Plant) {
    let fixture = Fixture::make(subject).await;
    let store = subject.store();
    let _ = fixture::reserve(&Scene::with_cap(subject, 100).await, &globex()).await;
    subject.elapse(fixture::LEASE + GRACE).await;
    for fault in [Invariant::KeyWithoutRun, Invariant::QueueEntryWithoutJob] {
        assert!(matches!(subject.plant(fault, &fixture).await, Planted::In(_)), "{fault}");
    }
    let mut found_in_all = 0;
    for invariant in OF_UNLISTED {
        let mut of_each = look_at_unlisted(&store, Some(&acme()), invariant, PAGE).await;
        of_each.extend(look_at_unlisted(&store, Some(&globex()), invariant, PAGE).await);
        found_in_all += of_each.len();
        for limit in [1, PAGE, 1_000] {
            let mut of_all = look_at_unlisted(&store, None, invariant, limit).await;
            of_all.sort_by(|one, other| (&one.tenant, &one.subject).cmp(&(&other.tenant, &other.subject)));
            assert_eq!(of_all, of_each, "pages of {limit}");
        }
    }
    assert_eq!(found_in_all, 4, "a reservation of each tenant, a key and an entry of a queue");
}

pub async fn a_damaged_row_is_reported_and_does_not_stop_other_checks(subject: &mut dyn Plant) {
    let Some((fixture, damaged)) = spoilt(subject, Invariant::RowDamaged).await else { return };
    assert!(!damaged.is_repairable, "{damaged:?}");
    let mut planted = BTreeMap::from([(Invariant::RowDamaged, damaged.subject.clone())]);
    for fault in [Invariant::SlotWithoutRun, Invariant::JobInNoIndex, Invariant::LockNotListed] {
        if let Planted::In(spoilt) = subject.plant(fault, &fixture).await {
            planted.insert(fault, spoilt);
        }
    }
    let store = subject.store();
    let found = look(&store, &acme()).await;
    let expected: Vec<_> = planted.iter().map(|(fault, spoilt)| (*fault, spoilt.as_str())).collect();
    assert_eq!(names(&found), expected);
    for finding in &found {
        let repaired = repair(&store, finding.invariant, &finding.subject).await;
        match finding.invariant {
            Invariant::RowDamaged => {
                assert!(matches!(repaired, RepairOutcome::Impossible { .. }), "{repaired:?}");
            }
            other => assert_eq!(repaired, RepairOutcome::Repaired, "{other}"),
        }
    }
    let left = look(&store, &acme()).await;
    assert_eq!(names(&left), [(Invariant::RowDamaged, damaged.subject.as_str())]);
}

pub async fn many_dead_letters_are_reported_and_not_repaired(subject: &mut dyn Plant) {
    let fault = Invariant::DeadLettersGrowing;
    let Some((fixture, finding)) = spoilt(subject, fault).await else { return };
    assert!(!finding.is_repairable, "{finding:?}");
    let store = subject.store();
    let repaired = repair(&store, fault, &finding.subject).await;
    assert!(matches!(repaired, RepairOutcome::Impossible { .. }), "{repaired:?}");
    store
        .call(DeleteDeadLetter { tenant: acme(), job: fixture.letter(0).job.clone() })
        .await
        .expect("the letter is there");
    assert_eq!(look(&store, &acme()).await, [], "one less is tolerated");
}
