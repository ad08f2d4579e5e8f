//! What was seen, judged by the plan. Pure.

use std::fmt;
use std::time::Duration;

use interlock_model::time::millis;
use serde::{Deserialize, Serialize};

use super::plan::{CHECKS, Expected, What, Who};

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Accepted,
    /// Somebody else has it.
    Held,
    /// The fence is stale.
    Stale,
    /// The contender's work is what counts.
    Kept,
    /// Something else is what counts.
    Spoilt,
    /// No answer, or one that does not say whether it was done.
    Unclear,
}

/// Something that was done or looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub who: Who,
    pub what: What,
    pub fence: Option<u64>,
    pub answer: Answer,
    /// The answer as it came.
    pub words: String,
    /// How old the writer's lease was at most, when the answer came.
    pub lease_age: Duration,
}

/// Whether the promise has held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Held,
    /// It cannot be told.
    Unknown,
    Broken,
}

/// Whether one row is as it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    Ok,
    /// It cannot be told.
    Unknown,
    Broken,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Broken => "broken",
        })
    }
}

/// One line of the verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub who: Who,
    pub what: What,
    pub fence: Option<u64>,
    pub expected: Expected,
    /// The answer as it came; null if it did not come to that.
    pub seen: Option<String>,
    /// How often it was done. If the answers differ, the worst is shown.
    pub times: usize,
    #[serde(rename = "verdict")]
    pub finding: Finding,
}

/// A row for each check of the plan. `ttl` is that of every lease.
#[must_use]
pub fn judge(seen: &[Seen], ttl: Duration) -> Vec<Row> {
    let judge = Judge { seen, ttl };
    CHECKS.iter().map(|&(who, what, expected)| judge.row(who, what, expected)).collect()
}

/// The worst of the rows; unknown if there are none.
#[must_use]
pub fn overall(rows: &[Row]) -> Verdict {
    match rows.iter().map(|row| row.finding).max() {
        Some(Finding::Ok) => Verdict::Held,
        Some(Finding::Unknown) | None => Verdict::Unknown,
        Some(Finding::Broken) => Verdict::Broken,
    }
}

struct Judge<'a> {
    seen: &'a [Seen],
    ttl: Duration,
}

impl<'a> Judge<'a> {
    fn all(&self, who: Who, what: What) -> impl Iterator<Item = &'a Seen> + use<'a> {
        self.seen.iter().filter(move |seen| seen.who == who && seen.what == what)
    }

    fn row(&self, who: Who, what: What, expected: Expected) -> Row {
        let worst = self.all(who, what).max_by_key(|seen| self.finding(seen, expected));
        Row {
            who,
            what,
            expected,
            fence: worst.and_then(|seen| seen.fence),
            seen: worst.map(|seen| seen.words.clone()),
            times: self.all(who, what).count(),
            finding: worst.map_or(Finding::Unknown, |seen| self.finding(seen, expected)),
        }
    }

    fn finding(&self, seen: &Seen, expected: Expected) -> Finding {
        match (expected, seen.answer) {
            (Expected::Accepted, Answer::Accepted)
            | (Expected::NotGranted, Answer::Held)
            | (Expected::Refused, Answer::Stale)
            | (Expected::Kept, Answer::Kept) => Finding::Ok,
            (Expected::LargerFence, Answer::Accepted) if self.is_after_the_holder(seen) => Finding::Ok,
            (Expected::LargerFence | Expected::Refused, Answer::Accepted)
            | (Expected::Kept, Answer::Spoilt) => Finding::Broken,
            // Whoever let its lease run out before it was answered is refused rightly: the machine was too busy.
            (Expected::Accepted, Answer::Stale) if seen.lease_age < self.ttl => Finding::Broken,
            // Two have it at once, if the holder has not lost it.
            (Expected::NotGranted, Answer::Accepted) if self.holder_never_failed() => Finding::Broken,
            _ => Finding::Unknown,
        }
    }

    fn is_after_the_holder(&self, later: &Seen) -> bool {
        let mut earlier = self.all(Who::HolderLive, later.what);
        earlier.all(|earlier| later.fence > earlier.fence)
    }

    fn holder_never_failed(&self) -> bool {
        let mut writes = self.seen.iter().filter(|seen| seen.who == Who::HolderLive);
        writes.all(|seen| seen.answer == Answer::Accepted && seen.lease_age < self.ttl)
    }
}

/// One sentence for people.
#[must_use]
pub fn sentence(rows: &[Row], paused: Option<Duration>) -> String {
    let Some(paused) = paused else { return "unknown: it did not come to a late write".to_owned() };
    let late: Vec<_> = rows.iter().filter(|row| row.expected == Expected::Refused).collect();
    let refused = late.iter().filter(|row| row.finding == Finding::Ok).count();
    let pause = format!("after a pause of {} ms", millis(paused));
    let found = format!("{pause}, {refused} of {} late writes were refused", late.len());
    let named = |finding| {
        let rows = rows.iter().filter(|row| row.finding == finding);
        rows.map(|row| format!("{}: {}", row.who, row.what)).collect::<Vec<_>>().join("; ")
    };
    match overall(rows) {
        Verdict::Held => format!("held: {found}, and no write of whoever held"),
        Verdict::Broken => format!("broken: {found}. Not as it must be: {}", named(Finding::Broken)),
        Verdict::Unknown => format!("unknown: {found}. Not to be told: {}", named(Finding::Unknown)),
    }
}

#[cfg(test)]
mod tests;
