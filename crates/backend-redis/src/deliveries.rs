//! Results under the lock of their run: recorded together with taking it, or put off.

use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::StoreError;
use interlock_backend::deliveries::{
    DeliveryStore, IN_HAND, PutOff, PutOffAnswer, PutOffResult, ReportAndTake, ReportTaken,
};
use interlock_model::TenantId;
use interlock_model::run::InboxEvent;
use interlock_model::time::millis;

use crate::jobs::cause_name;
use crate::runs::read_taken;
use crate::script::{Call, Fields, Unreadable};
use crate::store::RedisStore;
use crate::{encode, scripts};

#[async_trait]
impl DeliveryStore for RedisStore {
    async fn report_and_take(&self, report: &ReportAndTake) -> Result<ReportTaken, StoreError> {
        let ReportAndTake { tenant, job, fence, outcome, holder, lease } = report;
        let call = Call::write(&scripts::REPORT_AND_TAKE, "record a result", tenant)
            .of("job", job)
            .under(*fence)
            .with(job.to_string())
            .with(job.run.to_string())
            .with(fence.number())
            .with(cause_name(outcome.cause()))
            .with(encode::outcome(job, outcome.clone()));
        let answer = self.take_by(call, (holder, *lease), read_report).await?;
        if let ReportTaken::Recorded(taken) = &answer {
            self.link.known().saw_fence(taken.fence);
        }
        Ok(answer)
    }

    async fn put_off(&self, asked: &PutOff) -> Result<PutOffAnswer, StoreError> {
        let PutOff { tenant, job, fence, outcome, deliveries, waited, delay, lease } = asked;
        let call = Call::write(&scripts::PUT_OFF, "put a result off", tenant)
            .of("job", job)
            .under(*fence)
            .with(job.to_string())
            .with(fence.number())
            .with(cause_name(outcome.cause()))
            .with(encode::outcome(job, outcome.clone()))
            .with(u64::from(*deliveries))
            .with(millis(*waited))
            .with(millis(*delay))
            .with(millis(*lease));
        self.ask(call, |mut fields| match fields.text()?.as_str() {
            "put_off" => Ok(PutOffAnswer::PutOff),
            "already" => Ok(PutOffAnswer::AlreadyRecorded),
            _ => Err(fields.unreadable("answer to a result")),
        })
        .await
    }

    async fn take_put_off(&self, tenant: &TenantId, limit: usize) -> Result<Vec<PutOffResult>, StoreError> {
        let call = Call::write(&scripts::TAKE_PUT_OFF, "take results that are due", tenant);
        let call = call.with(limit).with(millis(IN_HAND));
        self.ask(call, |mut fields| fields.list()?.each(|result| read_put_off(result.list()?))).await
    }
}

fn read_report(mut fields: Fields) -> Result<ReportTaken, Unreadable> {
    match fields.text()?.as_str() {
        "busy" => Ok(ReportTaken::Busy),
        "already" => Ok(ReportTaken::AlreadyRecorded),
        "recorded" => {
            let now = fields.time()?;
            Ok(ReportTaken::Recorded(Box::new(read_taken(fields.list()?, now)?)))
        }
        _ => Err(fields.unreadable("answer to a result")),
    }
}

/// A result as `lua/take_put_off.lua` tells it.
fn read_put_off(mut fields: Fields) -> Result<PutOffResult, Unreadable> {
    let (job, fence) = (fields.parsed("job id")?, fields.fence()?);
    let InboxEvent::Job { outcome, .. } = fields.json("result")? else {
        return Err(fields.unreadable("result"));
    };
    let (deliveries, waited) = (fields.parsed("count")?, fields.parsed("duration")?);
    Ok(PutOffResult { job, fence, outcome, deliveries, waited: Duration::from_millis(waited) })
}
