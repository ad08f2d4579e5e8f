//! What people read about a budget that has too little left. One text for the answer, the console and the logs.

use super::{Amount, BudgetDocument, BudgetGroup, LedgerState, Window};
use crate::Timestamp;

/// Why a reservation was not granted, and what ends it.
pub fn exhausted(
    (name, document): (&str, &BudgetDocument),
    (group, window): (&BudgetGroup, &Window),
    (state, ahead): (&LedgerState, u32),
    (asked, now): (Amount, Timestamp),
) -> String {
    let unit = &document.unit;
    let of = match (group.key(), group.run()) {
        (Some(key), Some(run)) => format!(" of {key:?} in run {run}"),
        (Some(key), None) => format!(" of {key:?}"),
        (None, Some(run)) => format!(" of run {run}"),
        (None, None) => String::new(),
    };
    let LedgerState { ledger, limit, remaining } = state;
    let mut sentences = vec![format!(
        "budget {name}{of} has {remaining} {unit} left of {limit}{}, and the reservation needs {asked}.",
        period(window)
    )];
    if !ledger.reserved.is_zero() {
        let permits = if ledger.open == 1 { "permit" } else { "permits" };
        sentences.push(format!("{} is reserved by {} open {permits}.", ledger.reserved, ledger.open));
    }
    if !ledger.unsettled.is_zero() {
        sentences.push(format!("{} expired unsettled.", ledger.unsettled));
    }
    if ahead > 0 {
        let jobs = if ahead == 1 { "1 job has" } else { &format!("{ahead} jobs have") };
        sentences.push(format!("{jobs} waited for it longer."));
    }
    sentences.push(match window.until {
        Some(until) => format!("It resets at {until} (in {}).", duration(until, now)),
        None => "It does not reset: an operator can adjust it.".to_owned(),
    });
    sentences.join(" ")
}

fn period(window: &Window) -> &'static str {
    use super::Period as P;
    match window.per {
        P::Hour => " this hour",
        P::Day => " today",
        P::Month => " this month",
        P::Run | P::Total => "",
    }
}

fn duration(until: Timestamp, now: Timestamp) -> String {
    let seconds = until.since(now).as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600, seconds / 60);
    if days > 1 {
        format!("{days} days")
    } else if hours > 0 {
        format!("{hours} h {} min", minutes % 60)
    } else if minutes > 0 {
        format!("{minutes} min")
    } else {
        format!("{seconds} s")
    }
}
