//! Held jobs: open, in no queue, until it is settled what becomes of them.

use async_trait::async_trait;
use interlock_backend::StoreError;
use interlock_backend::holds::{HeldDue, HoldStore, Settled, Settlement, TakeHeld};
use interlock_model::dispatch_policy::{Hold, HoldReason};
use interlock_model::history::{Event, EventKind};
use interlock_model::job::JobOutcome;
use interlock_model::run::InboxEvent;
use interlock_model::time::millis;
use interlock_model::{JobId, TenantId, Timestamp};

use crate::script::{Call, Fields, Unreadable};
use crate::store::RedisStore;
use crate::{encode, scripts};

#[async_trait]
impl HoldStore for RedisStore {
    async fn take_held(&self, asked: &TakeHeld) -> Result<Vec<HeldDue>, StoreError> {
        let call = Call::write(&scripts::TAKE_HELD, "take held jobs", &asked.tenant)
            .with(millis(asked.ahead))
            .with(millis(asked.in_hand))
            .with(asked.limit);
        let read = |mut fields: Fields| {
            let now = fields.time()?;
            fields.list()?.each(|item| read_due(item.list()?, now))
        };
        self.ask(call, read).await
    }

    async fn settle_held(
        &self,
        tenant: &TenantId,
        job: &JobId,
        settlement: &Settlement,
    ) -> Result<Settled, StoreError> {
        let call = Call::write(&scripts::SETTLE_HELD, "settle a held job", tenant);
        let call = settled_by(call.with(job.to_string()).with(job.run.to_string()), job, settlement);
        self.ask(call, |mut fields| match fields.text()?.as_str() {
            "released" => Ok(Settled::Released),
            "denied" => Ok(Settled::Denied),
            "waiting" => Ok(Settled::Waiting(fields.time()?)),
            "asked" => Ok(Settled::Asked),
            "not_held" => Ok(Settled::NotHeld),
            _ => Err(fields.unreadable("settlement")),
        })
        .await
    }
}

/// A settlement as `lua/settle_held.lua` reads it.
fn settled_by(call: Call, job: &JobId, settlement: &Settlement) -> Call {
    match settlement {
        Settlement::Release { told } => call.with("release").with(released(job, told.as_deref())),
        Settlement::ReleaseWithin { rule, throttle, detail, told } => call
            .with("release_within")
            .with(released(job, told.as_deref()))
            .with(rule.as_str())
            .with(throttle.dispatches.get())
            .with(millis(throttle.period))
            .with(detail.as_str())
            .with(held(job, HoldReason::PolicyThrottled, detail)),
        Settlement::Deny { reason } => {
            call.with("deny").with(encode::outcome(job, JobOutcome::Denied { reason: reason.clone() }))
        }
        Settlement::Wait { reason, detail, wait } => call
            .with("wait")
            .with(reason.name())
            .with(detail.as_str())
            .with(millis(*wait))
            .with(held(job, *reason, detail)),
        Settlement::Ask { approval, detail } => {
            let event = InboxEvent::ApprovalAsked { job: job.clone(), reason: detail.clone() };
            let mut call = call.with("ask").with(detail.as_str()).with(encode::json(&event));
            encode::put_approval(&mut call.arguments, approval);
            call
        }
    }
}

fn released(job: &JobId, told: Option<&str>) -> Option<String> {
    let event = |told| Event::new(Timestamp::ZERO, EventKind::StepReleased).of_job(job).saying(told);
    told.map(|told: &str| encode::without_first_time(&event(told)))
}

fn held(job: &JobId, reason: HoldReason, detail: &str) -> String {
    encode::without_first_time(&Hold::event(Timestamp::ZERO, job, reason, detail))
}

fn read_due(mut fields: Fields, now: Timestamp) -> Result<HeldDue, Unreadable> {
    let job = fields.json("job")?;
    let hold = read_hold(&mut fields)?.ok_or_else(|| fields.unreadable("held job"))?;
    Ok(HeldDue { job, hold, now })
}

/// A hold as `hold_fields` of `lua/shared/job_view.lua` orders it.
pub(crate) fn read_hold(fields: &mut Fields) -> Result<Option<Hold>, Unreadable> {
    let Some(reason) = fields.optional_text()? else {
        // The four other fields of a hold are as absent as its reason.
        for _ in 0..4 {
            fields.optional_text()?;
        }
        return Ok(None);
    };
    let reason =
        HoldReason::named(&reason).ok_or_else(|| Unreadable(format!("{reason} is no reason of a hold")))?;
    Ok(Some(Hold {
        reason,
        detail: fields.text()?,
        since: fields.time()?,
        looks: fields.parsed("count")?,
        look_at: fields.optional_time()?,
    }))
}
