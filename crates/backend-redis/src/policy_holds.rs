//! Held jobs: open, in no queue, until a policy or a person has decided about them.

use interlock_backend::policy_holds::{HeldDue, Settled, Settlement};
use interlock_backend::verbs::{AcquireHeldJobs, SettleHeldJob};
use interlock_model::JobId;
use interlock_model::dispatch_policy::{Hold, HoldReason};
use interlock_model::history::{Event, EventKind};
use interlock_model::job::JobOutcome;
use interlock_model::run::InboxEvent;

use crate::arguments::Arguments;
use crate::client::ScriptClient;
use crate::encode;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Script, script};
use crate::store::Scripted;

impl Scripted for AcquireHeldJobs {
    fn script() -> &'static Script {
        script!("acquire_held_jobs")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        Call::to::<Self>(&self.tenant)
            .with("ahead", self.ahead)
            .with("in_progress", self.in_progress)
            .with("limit", self.limit)
    }

    fn read(&self, mut reply: Reply) -> Result<Vec<HeldDue>, Unreadable> {
        let now = reply.time("now")?;
        reply.each("jobs", |mut item| {
            let hold = read_hold(&mut item)?.ok_or_else(|| item.unreadable("held"))?;
            Ok(HeldDue { job: item.json("job")?, hold, now })
        })
    }
}

impl Scripted for SettleHeldJob {
    fn script() -> &'static Script {
        script!("settle_held_job")
    }

    fn call(&self, _: &ScriptClient) -> Call {
        let call = Call::to::<Self>(&self.tenant).with("job", &self.job).with("run", self.job.run);
        with_settlement(call, &self.job, &self.settlement)
    }

    fn read(&self, mut reply: Reply) -> Result<Settled, Unreadable> {
        match reply.text("outcome")?.as_str() {
            "released" => Ok(Settled::Released),
            "denied" => Ok(Settled::Denied),
            "waiting" => Ok(Settled::Waiting(reply.time("until")?)),
            "asked" => Ok(Settled::Asked),
            "not_held" => Ok(Settled::NotHeld),
            _ => Err(reply.unreadable("outcome")),
        }
    }
}

fn with_settlement(call: Call, job: &JobId, settlement: &Settlement) -> Call {
    match settlement {
        Settlement::Release { message } => {
            call.with("decision", "release").with("released", released(job, message.as_deref()))
        }
        Settlement::ReleaseWithin { rule, throttle, detail, message } => call
            .with("decision", "release_within")
            .with("released", released(job, message.as_deref()))
            .with("rule", rule)
            .with("dispatches", throttle.dispatches.get())
            .with("period", throttle.period)
            .with("detail", detail)
            .with("event", held(job, HoldReason::PolicyThrottled, detail)),
        Settlement::Deny { reason } => {
            let outcome = JobOutcome::Denied { reason: reason.clone() };
            call.with("decision", "deny").with("event", encode::outcome(job, &outcome))
        }
        Settlement::Wait { reason, detail, wait } => call
            .with("decision", "wait")
            .with("reason", reason.name())
            .with("detail", detail)
            .with("wait", *wait)
            .with("event", held(job, *reason, detail)),
        Settlement::Ask { approval, detail } => {
            let event = InboxEvent::ApprovalAsked { job: job.clone(), reason: detail.clone() };
            call.with("decision", "ask")
                .with("detail", detail)
                .with("event", encode::json(&event))
                .with("approval", encode::approval(approval))
        }
    }
}

fn released(job: &JobId, message: Option<&str>) -> Option<Arguments> {
    let event = |message: &str| {
        encode::around_time(|at| Event::new(at, EventKind::StepReleased).of_job(job).saying(message))
    };
    message.map(event)
}

fn held(job: &JobId, reason: HoldReason, detail: &str) -> Arguments {
    encode::around_time(|at| Hold::event(at, job, reason, detail))
}

/// A policy hold, by the names of its fields in the hash of its job.
pub(crate) fn read_hold(view: &mut Reply) -> Result<Option<Hold>, Unreadable> {
    let Some(reason) = view.optional_text("held")? else { return Ok(None) };
    let reason =
        HoldReason::named(&reason).ok_or_else(|| Unreadable(format!("{reason} is no reason of a hold")))?;
    Ok(Some(Hold {
        reason,
        detail: view.text("held_detail")?,
        since: view.time("held_since")?,
        looks: view.parsed("held_looks")?,
        look_at: view.optional_time("held_until")?,
    }))
}
