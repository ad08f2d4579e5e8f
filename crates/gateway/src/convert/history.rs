//! Timelines.

use interlock_api::history::TimelineItem;
use interlock_model::history::{Event, Recorded};

pub(crate) fn item(recorded: Recorded) -> TimelineItem {
    let Recorded { sequence, event } = recorded;
    let Event { at, kind, step, job, status, message, data } = event;
    TimelineItem {
        seq: sequence,
        time: at.into(),
        r#type: kind.name().to_owned(),
        step_id: step,
        job_id: job,
        status,
        message,
        data,
    }
}
