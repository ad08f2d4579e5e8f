//! Named limits: saved, paused, and the holders of their slots.

use interlock_backend::limits::HeldSlot;
use interlock_backend::verbs::{AdoptSystemLimits, ListSlots, PauseLimit, SaveLimit};
use interlock_model::limit::GroupKey;
use interlock_model::limit::document::{LimitDocument, OnFull, QueueOrder};
use interlock_model::time::millis;
use interlock_model::{LimitName, RunId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::encode;
use crate::reply::{Unreadable, Value};
use crate::script::Arguments;
use crate::store::Scripted;

/// What scripts go by, beside the document of a limit. Times of a rate are in microseconds.
#[derive(Serialize)]
struct LimitRow {
    runs_max: Option<u32>,
    interval: Option<u64>,
    ahead: Option<u64>,
    on_full: OnFull,
    queued_max: u32,
    wait_max: u64,
    order: QueueOrder,
    /// Of groups of a fair queue, escaped: `vip=3 a%2Fb=2`.
    weights: Option<String>,
    quiet: Option<u64>,
    delay_max: Option<u64>,
}

impl LimitRow {
    fn of(document: &LimitDocument) -> Self {
        let rule = document.group_rule(false);
        Self {
            runs_max: rule.runs_max,
            interval: rule.rate.map(|rate| rate.interval),
            ahead: rule.rate.map(|rate| rate.ahead),
            on_full: rule.queue.on_full,
            queued_max: rule.queue.queued_max,
            wait_max: millis(rule.queue.wait_max),
            order: rule.queue.order,
            weights: weights(document),
            quiet: rule.debounce.map(|debounce| millis(debounce.quiet)),
            delay_max: rule.debounce.map(|debounce| millis(debounce.delay_max)),
        }
    }
}

impl Scripted for SaveLimit {
    fn arguments(&self) -> Vec<u8> {
        Arguments::default()
            .with("name", &self.name)
            .with("document", encode::json(&self.document))
            .with("rule", LimitRow::of(&self.document))
            .with("book", self.book)
            .with("replaces", self.replaces)
            .packed()
    }
}

impl Scripted for AdoptSystemLimits {
    fn arguments(&self) -> Vec<u8> {
        /// A limit as its hash has it.
        #[derive(Serialize)]
        struct Copied<'a> {
            name: &'a LimitName,
            document: String,
            rule: LimitRow,
            revision: u64,
            saved_at: Timestamp,
            paused: Option<String>,
        }
        let copied = self.limits.iter().map(|limit| Copied {
            name: &limit.name,
            document: encode::json(&limit.document),
            rule: LimitRow::of(&limit.document),
            revision: limit.revision,
            saved_at: limit.saved_at,
            paused: limit.paused.as_ref().map(encode::json),
        });
        let copied: Vec<Copied<'_>> = copied.collect();
        Arguments::default().with("version", self.version).with("limits", copied).packed()
    }
}

fn weights(document: &LimitDocument) -> Option<String> {
    let weights = &document.queue.as_ref()?.weights;
    let listed = weights.iter().filter_map(|(group, weight)| {
        let group: GroupKey = group.parse().ok()?;
        Some(format!("{}={weight}", group.escaped()))
    });
    Some(listed.collect::<Vec<_>>().join(" ")).filter(|listed| !listed.is_empty())
}

impl Scripted for PauseLimit {
    fn arguments(&self) -> Vec<u8> {
        let pause = self.pause.as_ref().map(encode::json);
        Arguments::default().with("name", &self.name).with("pause", pause).packed()
    }
}

impl Scripted for ListSlots {
    fn read(&self, reply: Value<'_>) -> Result<Vec<HeldSlot>, Unreadable> {
        /// A slot of the tenant has no time of its own.
        #[derive(Deserialize)]
        struct Held {
            run: RunId,
            since: Option<Timestamp>,
        }
        let held = Vec::<Held>::deserialize(reply)?.into_iter();
        Ok(held.map(|Held { run, since }| HeldSlot { run, since: since.unwrap_or(run.made_at()) }).collect())
    }
}
