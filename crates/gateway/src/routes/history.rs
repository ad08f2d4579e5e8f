//! Timelines.

use interlock_api::history::{TimelineItem, TimelineQuery};
use interlock_backend::verbs::ReadTimeline;
use interlock_model::RunId;
use interlock_model::history::{Event, Recorded};

use super::{Answer, Caller, Json, Named, Page, Parameters, Permission, Refusal, endpoints, first_page};

endpoints!("history": timeline);

/// What happened to the run, oldest first. A cursor is the number of an event.
#[utoipa::path(get, path = "/api/v1/workflow-runs/{id}/timeline", params(TimelineQuery),
    responses((status = 200, body = Page<TimelineItem>)))]
async fn timeline(
    caller: Caller,
    Named(run): Named<RunId>,
    parameters: Parameters,
) -> Answer<Page<TimelineItem>> {
    caller.may_for_run(Permission::ReadRuns, run).await?;
    let limit = parameters.limit()?;
    let after = match parameters.text("cursor")? {
        Some(cursor) => number_of_event(cursor)
            .ok_or_else(|| Refusal::invalid("cursor: it is not one that a timeline has given out"))?,
        None => 0,
    };
    let read = ReadTimeline { tenant: caller.tenant, run, after, limit: limit + 1 };
    let found = caller.app.store.call(read).await?;
    let page = first_page(found, limit, |last| last.sequence.to_string());
    Ok(Json(Page::new(page.items.into_iter().map(item).collect(), page.next)))
}

/// The number of an event as clients carry it, in as many digits as the document allows.
pub(super) fn number_of_event(text: &str) -> Option<u64> {
    const DIGITS_MAX: usize = 15;
    let is_number = text.len() <= DIGITS_MAX && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

pub(super) fn item(recorded: Recorded) -> TimelineItem {
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
