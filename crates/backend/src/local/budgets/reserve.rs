//! Reserving from a budget.

use std::time::Duration;

use interlock_model::budget::{
    Amount, BudgetGroup, EXPIRED_AT_ONCE_MAX, GROUPS_MAX, OPEN_PERMITS_MAX, Permit, PermitState, Window,
};
use interlock_model::dispatch_policy::BudgetPlace;
use interlock_model::run::Head;
use interlock_model::{BudgetName, JobId, PermitId, RunId};

use super::super::draft::decide;
use super::super::rows as all_rows;
use super::super::tables::Table;
use super::book::{Book, FORGOTTEN_AT_ONCE_MAX};
use super::queue::Ahead;
use crate::StoreError;
use crate::budgets::{BudgetBound, Reserved};
use crate::verbs::ReserveBudget;

decide!(ReserveBudget, |verb, draft| {
    let mut book = Book::open(draft, verb.wall_lead);
    book.require(&verb.name)?;
    if let Some(known) = book.permit(&verb.name, &verb.permit)? {
        check_replay(verb, &known)?;
    }
    book.expire_due(EXPIRED_AT_ONCE_MAX)?;
    book.forget_ended(&verb.name, FORGOTTEN_AT_ONCE_MAX)?;
    let answer = book.reserve(&Reservation {
        name: &verb.name,
        revision: verb.revision,
        window: verb.window,
        group: &verb.group,
        run: verb.run,
        permit: &verb.permit,
        amount: verb.amount,
        least: verb.least,
        holder: PermitHolder::Client { ttl: verb.ttl },
    })?;
    let _ = book.close()?;
    Ok(answer)
});

/// What is to be reserved, from what.
pub(super) struct Reservation<'a> {
    pub(super) name: &'a BudgetName,
    /// Of the document that the window was computed by.
    pub(super) revision: u64,
    pub(super) window: Window,
    pub(super) group: &'a BudgetGroup,
    pub(super) run: Option<RunId>,
    pub(super) permit: &'a PermitId,
    pub(super) amount: Amount,
    pub(super) least: Amount,
    pub(super) holder: PermitHolder<'a>,
}

/// Who has a permit, and so when it ends by itself.
pub(super) enum PermitHolder<'a> {
    Client {
        ttl: Duration,
    },
    Job {
        job: &'a JobId,
        /// Where it waits if it cannot reserve, and those ahead of it reserve first. None: it waits nowhere.
        place: Option<&'a BudgetPlace>,
    },
}

impl Book<'_, '_> {
    pub(super) fn reserve(&mut self, verb: &Reservation<'_>) -> Result<Reserved, StoreError> {
        let Reservation { name, window, group, .. } = verb;
        // The same request gets the same permit, whatever the time.
        if let Some(permit) = self.permit(name, verb.permit)? {
            let state = self.state(name, (&permit.place(), &permit.group))?;
            return Ok(Reserved::Granted { permit, state, is_replay: true });
        }
        let budget = self.require(name)?;
        if budget.revision != verb.revision || budget.document.per != window.per {
            return Ok(Reserved::Outdated);
        }
        let (open, groups) = (budget.open, budget.groups);
        if !window.contains(self.wall) {
            return Ok(Reserved::WindowOver { now: self.wall });
        }
        if let Some(run) = verb.run {
            let head: Option<Head> = self.draft.read(Table::Heads, &all_rows::run(self.draft.id, run))?;
            if head.as_ref().is_none_or(|head| head.status.is_final()) {
                return Ok(Reserved::RunOver { is_known: head.is_some() });
            }
        }
        if open >= OPEN_PERMITS_MAX {
            return Ok(Reserved::TooMany { what: BudgetBound::OpenPermits, most: OPEN_PERMITS_MAX });
        }
        let place = group.place(window);
        if groups >= GROUPS_MAX && self.ledger(name, &place)?.is_none() {
            return Ok(Reserved::TooMany { what: BudgetBound::Groups, most: GROUPS_MAX });
        }
        let state = self.state(name, (&place, group))?;
        let ahead = match verb.holder {
            PermitHolder::Job { job, place: Some(place) } => self.ahead((place, job), state.limit)?,
            PermitHolder::Job { place: None, .. } | PermitHolder::Client { .. } => Ahead::default(),
        };
        if ahead.is_blocking || state.remaining < verb.least {
            return Ok(Reserved::Exhausted { state, now: self.wall, ahead: ahead.jobs });
        }
        let fence = self.draft.mint_fence()?;
        let permit = Permit {
            id: verb.permit.clone(),
            window: *window,
            group: (*group).clone(),
            state: PermitState::Open,
            asked: verb.amount,
            least: verb.least,
            granted: verb.amount.min(state.remaining),
            fence,
            granted_at: self.now,
            expires_at: match verb.holder {
                PermitHolder::Client { ttl } => Some(self.now + ttl),
                PermitHolder::Job { .. } => None,
            },
            job: match verb.holder {
                PermitHolder::Client { .. } => None,
                PermitHolder::Job { job, .. } => Some(job.clone()),
            },
            settled: Amount::ZERO,
            ended_at: None,
        };
        self.grant(verb, permit)
    }

    fn grant(&mut self, verb: &Reservation<'_>, permit: Permit) -> Result<Reserved, StoreError> {
        let Reservation { name, window, group, .. } = verb;
        let place = group.place(window);
        self.begin(name, (window, group))?;
        self.change(name, &place, |ledger| ledger.add(&permit))?;
        let budget = self.require(name)?;
        budget.open += 1;
        budget.window = Some(window.to_string());
        if let Some(expiry) = self.expiry(name, &permit) {
            self.draft.mark(Table::BudgetDue, expiry);
        }
        self.put_permit(name, &permit.id, Some(permit.clone()));
        let state = self.state(name, (&place, group))?;
        Ok(Reserved::Granted { permit, state, is_replay: false })
    }
}

/// A request can be repeated as it was, as long as its permit may still be used.
fn check_replay(verb: &ReserveBudget, permit: &Permit) -> Result<(), StoreError> {
    if permit.asked != verb.amount || permit.least != verb.least || permit.group != verb.group {
        return Err(StoreError::Conflict(
            "the request id was used with another amount, key or run; use a new one for a new reservation"
                .to_owned(),
        ));
    }
    match permit.state {
        PermitState::Open | PermitState::Unsettled => Ok(()),
        PermitState::Settled | PermitState::Released => Err(StoreError::Conflict(format!(
            "the permit of this request id was {}; use a new one for a new reservation",
            permit.state.name()
        ))),
    }
}
