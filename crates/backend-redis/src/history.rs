//! Timelines.

use interlock_backend::verbs::ReadTimeline;
use interlock_model::history::Recorded;

use crate::client::ScriptClient;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Script, script};
use crate::store::Scripted;

/// More than any timeline has, and less than a script would round.
const SEQUENCE_MAX: u64 = 9_999_999_999;

impl Scripted for ReadTimeline {
    fn script() -> &'static Script {
        script!("read_timeline")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant)
            .of("run", self.run)
            .with("run", self.run)
            .with("after", self.after.min(SEQUENCE_MAX))
            .with("limit", self.limit)
    }

    fn read(&self, mut reply: Reply) -> Result<Vec<Recorded>, Unreadable> {
        let events = reply.each("events", |event| event.into_json("event"))?;
        let numbered = (self.after.min(SEQUENCE_MAX) + 1..).zip(events);
        Ok(numbered.map(|(sequence, event)| Recorded { sequence, event }).collect())
    }
}
