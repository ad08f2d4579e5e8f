//! Locks, and why one was not granted.

use std::time::Duration;

use interlock_api::locks::{
    HolderView, LockCause, LockDetail, LockEventKind, LockEventView, LockGrant, LockView, WaiterView,
};
use interlock_api::problem::RefusedBy;
use interlock_api::{Code, Page};
use interlock_backend::locks::{self, Busy, LockQuota};
use interlock_model::lock::{Grant, LockEnd, LockEvent, Waiter};
use interlock_model::time::millis;
use interlock_model::{LockOwner, Resource, Timestamp, why};

use crate::error::{Refusal, spread};

/// However short holds are, who was refused need not come back sooner.
const AGAIN_MIN: Duration = Duration::from_millis(100);

pub(crate) fn grant(resource: Resource, grant: Grant) -> LockGrant {
    let Grant { owner, mode, token, fence, expires_at, .. } = grant;
    LockGrant { resource, mode, owner, token, fence: fence.number(), expires_at: expires_at.into() }
}

pub(crate) fn page(page: interlock_backend::Page<locks::LockView>) -> Page<LockView> {
    let Page { items, next_cursor } = super::page(page, view);
    Page::new(items.into_iter().flatten().collect(), next_cursor)
}

/// None: nobody holds it.
fn view(view: locks::LockView) -> Option<LockView> {
    let locks::LockView { resource, holders, waiting } = view;
    let Grant { owner, mode, token, fence, acquired_at, expires_at, .. } = holders.first()?.clone();
    Some(LockView {
        resource,
        mode,
        owner,
        token,
        fence: fence.number(),
        acquired_at: acquired_at.into(),
        expires_at: expires_at.into(),
        holders: holders.into_iter().map(holder).collect(),
        waiting,
    })
}

fn holder(grant: Grant) -> HolderView {
    let Grant { owner, token, fence, acquired_at, expires_at, .. } = grant;
    HolderView {
        owner,
        token,
        fence: fence.number(),
        acquired_at: acquired_at.into(),
        expires_at: expires_at.into(),
    }
}

pub(crate) fn detail(detail: locks::LockDetail, now: Timestamp) -> Option<LockDetail> {
    let line = (1..).zip(detail.line).map(|(position, waiter)| {
        let Waiter { owner, mode, since, .. } = waiter;
        WaiterView { owner, mode, position, waiting_ms: millis(now.since(since)) }
    });
    Some(LockDetail { view: view(detail.view)?, line: line.collect() })
}

pub(crate) fn event(event: LockEvent) -> LockEventView {
    let LockEvent { at, owner, mode, token, fence, end } = event;
    let (cause, by, reason) = match end {
        None => (LockCause::Acquired, None, None),
        Some(LockEnd::Released) => (LockCause::Released, None, None),
        Some(LockEnd::Expired) => (LockCause::Expired, None, None),
        Some(LockEnd::ForceReleased { by, reason }) => (LockCause::ForceReleased, Some(by), Some(reason)),
        Some(LockEnd::Withdrawn) => (LockCause::Withdrawn, None, None),
    };
    let kind = if cause == LockCause::Acquired { LockEventKind::Granted } else { LockEventKind::Ended };
    LockEventView {
        time: at.into(),
        event: kind,
        cause,
        owner,
        mode,
        token,
        fence: fence.number(),
        by,
        reason,
    }
}

/// Somebody else has it, or comes first.
pub(crate) fn held(resource: &Resource, busy: &Busy, wait_max: Duration) -> Refusal {
    let Busy { holder, held_for, position, is_line_full, .. } = busy;
    let state = why::lock(resource.as_str(), holder.as_ref().map(LockOwner::as_str), *held_for);
    let line = why::queue_position(*position, *is_line_full);
    let refusal = Refusal::new(Code::LockHeld, format!("{state}, and {line}"));
    refusal.retry_after(come_back_in(busy, wait_max)).with(|problem| {
        problem.holder =
            Some(holder.as_ref().map_or(RefusedBy::Unknown, |owner| RefusedBy::Owner(owner.to_string())));
        problem.held_ms = Some(millis(*held_for));
        problem.position = Some(u64::from(*position));
    })
}

/// What has lasted for a while may last as long again, and so may the holds of all who come before the caller; but not
/// beyond the moment at which it would be the caller's turn by time alone. Spread, so that not all come back at once.
fn come_back_in(busy: &Busy, wait_max: Duration) -> Duration {
    let guess = busy.held_for.saturating_mul(busy.position);
    let known = busy.may_change_in.unwrap_or(wait_max);
    let wait = guess.min(known).max(AGAIN_MIN);
    wait.mul_f64(rand::random_range(1.0..=1.5)).min(wait_max)
}

pub(crate) fn over_quota(what: LockQuota, limit: u32, current: u32) -> Refusal {
    let sentence = match what {
        LockQuota::Held => format!("the tenant holds as many locks as it may: {limit}"),
        LockQuota::Waiting => {
            format!("as many requests of the tenant stand in line for locks as may: {limit}")
        }
    };
    Refusal::new(Code::LockQuota, sentence).retry_after(spread()).with(|problem| {
        problem.limit = Some(u64::from(limit));
        problem.current = Some(u64::from(current));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(held_for: u64, position: u32, may_change_in: Option<u64>) -> Busy {
        Busy {
            holder: None,
            held_for: Duration::from_millis(held_for),
            position,
            may_change_in: may_change_in.map(Duration::from_millis),
            is_line_full: false,
        }
    }

    #[test]
    fn when_to_come_back_follows_what_is_known_and_has_bounds() {
        let most = Duration::from_mins(1);
        let table = [
            // It was only just taken.
            (busy(0, 1, Some(30_000)), 100..=150),
            // It may last as long again; three such before the caller.
            (busy(2_000, 3, None), 6_000..=9_000),
            // It runs out before that.
            (busy(20_000, 1, Some(4_000)), 4_000..=6_000),
            // Nobody is told to come back tomorrow.
            (busy(80_000_000, 2_000, None), 60_000..=60_000),
        ];
        for (busy, expected) in table {
            let wait = millis(come_back_in(&busy, most));
            assert!(expected.contains(&wait), "{busy:?}: {wait}");
        }
    }
}
