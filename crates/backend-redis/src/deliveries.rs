//! Results under the lock of their run: recorded together with acquiring it, or deferred.

use interlock_backend::deliveries::{DeferOutcome, DeferredResult, DeliveryOutcome, IN_PROGRESS};
use interlock_backend::verbs::{AcquireDeferredResults, DeferResult, DeliverResult};
use interlock_model::run::InboxEvent;

use crate::client::ScriptClient;
use crate::encode;
use crate::jobs::cause_name;
use crate::known::Known;
use crate::reply::{Reply, Unreadable};
use crate::runs::{read_acquired, with_acquirer};
use crate::script::{Call, Script, script};
use crate::store::Scripted;

impl Scripted for DeliverResult {
    fn script() -> &'static Script {
        script!("deliver_result")
    }

    fn call(&self, client: &ScriptClient) -> Call {
        let call = Call::to::<Self>(&self.tenant)
            .of("job", &self.job)
            .under(self.fence)
            .with("job", &self.job)
            .with("run", self.job.run)
            .with("fence", self.fence)
            .with("cause", cause_name(self.outcome.cause()))
            .with("event", encode::outcome(&self.job, &self.outcome));
        with_acquirer(call, client, (&self.holder, self.lease))
    }

    fn read(&self, mut reply: Reply) -> Result<DeliveryOutcome, Unreadable> {
        match reply.text("outcome")?.as_str() {
            "busy" => Ok(DeliveryOutcome::Busy),
            "already" => Ok(DeliveryOutcome::AlreadyRecorded),
            "recorded" => {
                let now = reply.time("now")?;
                Ok(DeliveryOutcome::Recorded(Box::new(read_acquired(reply.part("run"), now)?)))
            }
            _ => Err(reply.unreadable("outcome")),
        }
    }

    fn learn(&self, answer: &DeliveryOutcome, known: &Known) {
        if let DeliveryOutcome::Recorded(run) = answer {
            known.saw_fence(run.fence);
        }
    }

    fn lease_in_doubt(&self, request: &str) -> Option<String> {
        Some(request.to_owned())
    }
}

impl Scripted for DeferResult {
    fn script() -> &'static Script {
        script!("defer_result")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant)
            .of("job", &self.job)
            .under(self.fence)
            .with("job", &self.job)
            .with("fence", self.fence)
            .with("cause", cause_name(self.outcome.cause()))
            .with("event", encode::outcome(&self.job, &self.outcome))
            .with("deliveries", self.deliveries)
            .with("waited", self.waited)
            .with("delay", self.delay)
            .with("lease", self.lease)
    }

    fn read(&self, mut reply: Reply) -> Result<DeferOutcome, Unreadable> {
        match reply.text("outcome")?.as_str() {
            "deferred" => Ok(DeferOutcome::Deferred),
            "already" => Ok(DeferOutcome::AlreadyRecorded),
            _ => Err(reply.unreadable("outcome")),
        }
    }
}

impl Scripted for AcquireDeferredResults {
    fn script() -> &'static Script {
        script!("acquire_deferred_results")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant).with("limit", self.limit).with("in_progress", IN_PROGRESS)
    }

    fn read(&self, mut reply: Reply) -> Result<Vec<DeferredResult>, Unreadable> {
        reply.each("results", |mut result| {
            let InboxEvent::Job { outcome, .. } = result.json("event")? else {
                return Err(result.unreadable("event"));
            };
            Ok(DeferredResult {
                job: result.parsed("job")?,
                fence: result.fence("fence")?,
                outcome,
                deliveries: result.parsed("deliveries")?,
                waited: result.duration("waited")?,
            })
        })
    }
}
