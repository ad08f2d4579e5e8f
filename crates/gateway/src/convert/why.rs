//! Reasons to wait.

use interlock_api::why::{CauseHolder, CauseView, WhyView};
use interlock_control::why::WhyAnswer;
use interlock_model::time::millis;
use interlock_model::why::{Cause, Holder};

pub(crate) fn view(subject: String, why: WhyAnswer) -> WhyView {
    let WhyAnswer { state, now, causes, more } = why;
    let causes = causes.into_iter().map(cause).collect();
    WhyView { subject, state, time: now.into(), causes, more: more as u64 }
}

fn cause(cause: Cause) -> CauseView {
    let Cause { code, sentence, step, job, since, until, holders, position, expected_wait } = cause;
    CauseView {
        code,
        detail: sentence,
        what_to_do: code.hint().to_owned(),
        step_id: step.or_else(|| job.as_ref().map(|job| job.step.clone())),
        job_id: job,
        since: since.map(Into::into),
        until: until.map(Into::into),
        holders: holders.into_iter().map(holder).collect(),
        position,
        expected_wait_ms: expected_wait.map(millis),
    }
}

fn holder(holder: Holder) -> CauseHolder {
    let Holder { name, since, until } = holder;
    CauseHolder { name, since: since.map(Into::into), until: until.map(Into::into) }
}
