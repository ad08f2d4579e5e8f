//! Events that are sent to runs and to keys.

use interlock_model::StepKey;
use interlock_model::event::{EventWaiter, SentEvent, WaitEffects};
use interlock_model::run::Head;
use serde_json::json;

use super::super::scene::name;
use super::{Walk, sampled};
use crate::verbs::{SendEvent, SendKeyedEvent, SpreadEvents};

sampled!(SendEvent, 5, |walk| {
    let (tenant, run) = walk.run()?;
    Some(SendEvent { tenant, run, event: walk.event() })
});

sampled!(SendKeyedEvent, 5, |walk| {
    let (tenant, key) = (walk.tenant(), walk.event_key());
    let event = SentEvent { key: Some(name(&key)), ..walk.event() };
    Some(SendKeyedEvent { tenant, event, kept_for: walk.millis(1..900) })
});

sampled!(SpreadEvents, 2, |walk| Some(SpreadEvents { tenant: walk.tenant(), limit: walk.limit() }));

impl Walk {
    /// One of few ids, so that some are sent again; now and then a large one, so that no room is left.
    fn event(&mut self) -> SentEvent {
        let id = format!("{}/{}", self.limit(), self.limit());
        let data =
            if self.flip(0.1) { json!("x".repeat(400_000)) } else { json!({"n": [self.limit(), 1.50]}) };
        SentEvent { id: name(&id), name: name("paid"), key: None, data, by: self.person() }
    }

    fn event_key(&mut self) -> String {
        self.one_of(&["a", "a/b", "{order} 17:*"]).to_owned()
    }

    /// Waits for keys that a turn begins or ends.
    pub(super) fn waits(&mut self, head: &Head) -> WaitEffects {
        let mut waits = WaitEffects::default();
        if self.flip(0.2) {
            let step = StepKey::whole(&name(self.one_of(&["wait", "wait-2"])));
            let waiter = EventWaiter { step, name: name("paid"), key: name(&self.event_key()) };
            let list =
                if head.status.is_final() || self.flip(0.4) { &mut waits.ended } else { &mut waits.begun };
            list.push(waiter);
        }
        waits
    }
}
