//! Jobs: claimed under a lease and a fence, held by policies.

use interlock_backend::jobs::Claimed;
use interlock_backend::policy_holds::Settlement;
use interlock_backend::verbs::{CancelJob, Claim, DeferResult, RecordProgress, RecordResult, SettleHeldJob};
use interlock_model::JobId;
use interlock_model::dispatch_policy::{Hold, HoldReason};
use interlock_model::history::{Event, EventKind};
use interlock_model::job::JobOutcome;
use interlock_model::run::InboxEvent;
use interlock_model::time::millis;
use serde_json::json;

use crate::encode::{self, AroundTime};
use crate::known::Known;
use crate::script::Arguments;
use crate::store::Scripted;
use crate::texts::{LargeText, LargeTexts};

impl Scripted for Claim {
    fn learn(&self, answer: &Vec<Claimed>, known: &Known) {
        for claimed in answer {
            known.saw_fence(claimed.lease.fence);
        }
    }
}

impl Scripted for RecordProgress {
    fn arguments(&self) -> Vec<u8> {
        let event = encode::around_time(|at| {
            let event = Event::new(at, EventKind::StepProgress).of_job(&self.job);
            let event = event.with_data(json!({"percent": self.progress.percent}));
            Event { message: self.progress.message.clone(), ..event }
        });
        Arguments::default().with("job", &self.job).with("fence", self.fence).with("event", event).packed()
    }
}

impl Scripted for RecordResult {
    fn arguments_and_texts(&self) -> (Vec<u8>, Vec<LargeText>) {
        let mut texts = LargeTexts::default();
        let arguments = Arguments::default()
            .with("job", &self.job)
            .with("fence", self.fence)
            .with("edge", self.edge)
            .with("outcome", encode::outcome(&self.outcome, &mut texts));
        (arguments.packed(), texts.into_vec())
    }
}

impl Scripted for DeferResult {
    fn arguments_and_texts(&self) -> (Vec<u8>, Vec<LargeText>) {
        let mut texts = LargeTexts::default();
        let arguments = Arguments::default()
            .with("job", &self.job)
            .with("fence", self.fence)
            .with("edge", self.edge)
            .with("outcome", encode::outcome(&self.outcome, &mut texts))
            .with("deliveries", self.deliveries)
            .with("waited", millis(self.waited))
            .with("delay", millis(self.delay))
            .with("lease", millis(self.lease));
        (arguments.packed(), texts.into_vec())
    }
}

impl Scripted for CancelJob {
    fn arguments(&self) -> Vec<u8> {
        let outcome = JobOutcome::Cancelled { by: self.by.clone() };
        Arguments::default().with("job", &self.job).with("outcome", encode::json(&outcome)).packed()
    }
}

impl Scripted for SettleHeldJob {
    fn arguments(&self) -> Vec<u8> {
        let job = &self.job;
        let arguments = Arguments::default().with("job", job);
        let arguments = match &self.settlement {
            Settlement::Release { message } => {
                arguments.with("decision", "release").with("released", released(job, message.as_deref()))
            }
            Settlement::ReleaseWithin { rule, throttle, detail, message } => arguments
                .with("decision", "release_within")
                .with("released", released(job, message.as_deref()))
                .with("rule", rule)
                .with("dispatches", throttle.dispatches)
                .with("period", millis(throttle.period))
                .with("detail", detail)
                .with("event", held(job, HoldReason::PolicyThrottled, detail)),
            Settlement::Deny { reason } => {
                let outcome = JobOutcome::Denied { reason: reason.clone() };
                arguments.with("decision", "deny").with("outcome", encode::json(&outcome))
            }
            Settlement::Exhaust { reason } => {
                let outcome = JobOutcome::Exhausted { reason: reason.clone() };
                arguments.with("decision", "deny").with("outcome", encode::json(&outcome))
            }
            Settlement::Reserve { reservation, message } => arguments
                .with("decision", "reserve")
                .with("released", released(job, message.as_deref()))
                .with("name", &reservation.name)
                .with("revision", reservation.revision)
                .with("window", reservation.window)
                .with("group", &reservation.group)
                .with("run", reservation.run)
                .with("permit", &reservation.permit)
                .with("is_queued", reservation.is_queued)
                .with("wall_lead", reservation.wall_lead),
            Settlement::Wait { reason, detail, wait, acquired_until } => arguments
                .with("decision", "wait")
                .with("reason", reason)
                .with("detail", detail)
                .with("wait", millis(*wait))
                .with("acquired_until", acquired_until)
                .with("is_of_budget", reason.is_of_budget())
                .with("event", held(job, *reason, detail)),
            Settlement::Ask { approval, detail } => {
                let event = InboxEvent::ApprovalAsked { job: job.clone(), reason: detail.clone() };
                arguments
                    .with("decision", "ask")
                    .with("detail", detail)
                    .with("event", encode::json(&event))
                    .with("approval", encode::approval(approval))
            }
        };
        arguments.packed()
    }
}

fn released(job: &JobId, message: Option<&str>) -> Option<AroundTime> {
    let event = |message: &str| {
        encode::around_time(|at| Event::new(at, EventKind::StepReleased).of_job(job).saying(message))
    };
    message.map(event)
}

fn held(job: &JobId, reason: HoldReason, detail: &str) -> AroundTime {
    encode::around_time(|at| Hold::event(at, job, reason, detail))
}
