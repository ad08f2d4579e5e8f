//! Violations of what must be true of limits, their queues, and children.

use interlock_backend::conformance::inspection::Fixture;
use interlock_model::doctor::Invariant;

use super::Soil;

impl Soil {
    pub(super) async fn of_limits(&self, fault: Invariant, fixture: &Fixture) -> String {
        let missing = fixture.missing.to_string();
        let [first, last] = fixture.waiting.map(|run| run.to_string());
        let (live, queue) = (self.row("wf:limit:live", "one"), self.row("wf:limit:queue", "one:api"));
        match fault {
            Invariant::LimitSlotWithoutRun => {
                self.run(&format!("ZADD {live}:api 0 {missing}"), "").await;
                missing
            }
            Invariant::RunWithoutLimitSlot => {
                self.run(&format!("ZREM {live}:web {}", fixture.alone), "").await;
                fixture.alone.to_string()
            }
            Invariant::FairQueueDrift => {
                let (groups, turns) =
                    (self.row("wf:limit:fair:groups", "one:api"), self.row("wf:limit:fair:turns", "one:api"));
                self.run(&format!("HSET {groups} ghost"), "5 1").await;
                self.run(&format!("ZADD {turns} 5 000000000000001/ghost"), "").await;
                "one/api".to_owned()
            }
            Invariant::QueuedRunInNoQueue => {
                let member = self.last_of(&queue).await;
                self.run(&format!("ZREM {queue}"), &member).await;
                last
            }
            Invariant::LimitQueueEntryWithoutRun => {
                self.run(&format!("ZADD {queue} 900 000000000000900/{missing}"), "").await;
                missing
            }
            Invariant::DebouncedRunWithoutTimer => {
                let member = self.last_of(&self.key("wf:limit:timers")).await;
                self.run(&format!("ZREM {}", self.key("wf:limit:timers")), &member).await;
                fixture.debounced.to_string()
            }
            Invariant::DebounceEntryWithoutRun => {
                let entry = format!("calm/{}/{missing}", fixture.workflow);
                self.run(&format!("ZADD {} 0 {entry}", self.row("wf:limit:debounced", "quiet")), "").await;
                missing
            }
            _ => {
                self.run(&format!("HSET {} runs_max 2", self.row("wf:limit", "one")), "").await;
                first
            }
        }
    }

    pub(super) async fn of_children(&self, fault: Invariant, fixture: &Fixture) -> String {
        let (parent, child, wanted) = (fixture.parent, fixture.child, fixture.wanted);
        match fault {
            Invariant::ChildWithoutStep => {
                let children = self.row("wf:run:children", &parent.to_string());
                self.run(&format!("SREM {children} {child}"), "").await;
                child.to_string()
            }
            Invariant::ChildStartNotDue => {
                self.run(&format!("ZREM {} {wanted}", self.key("wf:children:due")), "").await;
                wanted.to_string()
            }
            _ => {
                self.run(&format!("HDEL {} {wanted}", self.key("wf:children")), "").await;
                self.run(&format!("ZREM {} {wanted}", self.key("wf:children:due")), "").await;
                format!("{parent}/{wanted}")
            }
        }
    }
}
