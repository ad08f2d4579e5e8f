//! Violations of what must be true of limits, their queues, and children.

use interlock_model::doctor::Invariant;
use serde_json::json;

use super::{Fixture, Soil};
use crate::local::Table;

pub(super) async fn of_limits(soil: &Soil, fault: Invariant, fixture: &Fixture) -> String {
    let (limited, missing) = (fixture.limited.to_string(), fixture.missing.to_string());
    let [first, last] = fixture.waiting.map(|run| run.to_string());
    match fault {
        Invariant::LimitSlotWithoutRun => {
            soil.copy(Table::LimitSlots, (&limited, &missing), &[]).await;
            soil.count_group("live", 1).await;
            missing
        }
        Invariant::RunWithoutLimitSlot => {
            let alone = fixture.alone.to_string();
            soil.remove(Table::LimitSlots, &alone).await;
            soil.remove(Table::LimitGroups, "web").await;
            alone
        }
        Invariant::LimitCountDrift => {
            soil.count_group("live", 3).await;
            "one/api".to_owned()
        }
        Invariant::FairQueueDrift => {
            let group = json!({"charge": 5, "turn": 1, "queued": 2});
            soil.put(Table::FairGroups, "acme/one/api/ghost", group.to_string()).await;
            "one/api".to_owned()
        }
        Invariant::QueuedRunInNoQueue => {
            soil.remove(Table::RunQueue, &last).await;
            soil.count_group("queued", -1).await;
            last
        }
        Invariant::LimitQueueEntryWithoutRun => {
            soil.copy(Table::RunQueue, (&last, &missing), &[]).await;
            soil.edit(Table::RunQueue, &missing, |entry| entry["run"] = json!(missing)).await;
            soil.count_group("queued", 1).await;
            missing
        }
        Invariant::DebouncedRunWithoutTimer => {
            let debounced = fixture.debounced.to_string();
            soil.remove(Table::LimitTimers, &format!("+{debounced}")).await;
            debounced
        }
        Invariant::DebounceEntryWithoutRun => {
            soil.copy(Table::Debounced, (&fixture.debounced.to_string(), &missing), &[]).await;
            missing
        }
        Invariant::StartableRunWaits => {
            soil.edit(Table::Limits, "one", |limit| limit["document"]["max_runs"] = json!(2)).await;
            first
        }
        other => panic!("{other} is not about limits"),
    }
}

pub(super) async fn of_children(soil: &Soil, fault: Invariant, fixture: &Fixture) -> String {
    let (parent, child) = (fixture.parent.to_string(), fixture.child.to_string());
    let wanted = fixture.wanted.to_string();
    match fault {
        Invariant::ChildWithoutStep => {
            soil.remove(Table::Children, &child).await;
            child
        }
        Invariant::ChildStartNotDue => {
            soil.remove(Table::ChildrenDue, &wanted).await;
            wanted
        }
        _ => {
            soil.remove(Table::ChildStarts, &wanted).await;
            soil.remove(Table::ChildrenDue, &wanted).await;
            format!("{parent}/{wanted}")
        }
    }
}
