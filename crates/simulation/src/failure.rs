//! A promise that was broken, in one line that replays it.

use std::fmt;
use std::time::Duration;

use crate::Bug;

/// What must hold after every step, or at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    /// A tenant's live runs never exceed the limit in force when each was admitted.
    Cap,
    /// For one key all answers name one run.
    OneRunPerKey,
    /// One request starts one run.
    OneRunPerStart,
    /// Every key points to a run that is there, or that was deleted on request.
    NoKeyWithoutRun,
    /// A start that was not admitted changes nothing.
    RefusalLeavesNoTrace,
    /// A start is refused only for a reason.
    NoNeedlessRefusal,
    /// A tenant's counter, its slots and its live runs are the same.
    SlotsAreLiveRuns,
    /// Fences only grow, and none is given out twice.
    FencesGrow,
    /// Only the present holder's writes are accepted.
    NoStaleWrite,
    /// The present holder's writes are not refused, and no other gets what it holds.
    HolderIsLeftAlone,
    /// A job is reported at most once.
    ReportedOnce,
    /// An attempt times out by its claim, the wait for a worker by the dispatch, and neither before its time is over.
    AttemptHasItsTime,
    /// A settled step never changes its outcome.
    SettledStays,
    /// A final run never changes.
    FinalStays,
    /// Sequence numbers of a timeline have no gaps.
    TimelineHasNoGaps,
    /// An approval's first verdict counts.
    FirstVerdictCounts,
    /// Every answer agrees with the store.
    AnswersAreTrue,
    /// What was spent and is reserved of a budget never exceeds its amount because of a reservation.
    Budget,
    /// A permit is settled at most once.
    SettledOnce,
    /// A job ends what it has reserved in the step that ends the job, by what its worker says.
    PermitEndsWithJob,
    /// The ledger of a budget is the sum of its permits.
    LedgerAddsUp,
    /// A group of a limit never has more runs, or more starts over time, than the limit lets it have; a paused one gets
    /// none.
    LimitHolds,
    /// A tenant has the limits of the system in the version that it says, and once faults have stopped, the last one.
    SystemLimitsApply,
    /// A run holds all slots that it needs, or none.
    AllSlotsOrNone,
    /// A queued run waits in exactly one queue.
    QueuedInOneQueue,
    /// A debounced run starts when no newer start has come for its quiet period, or at the end of its longest delay: with
    /// the input of the newest.
    QuietIsKept,
    /// No queued run waits that could start, and no job sleeps for which its budget has enough.
    NoStartableWaits,
    /// A slot of a fair queue goes to the group that has used the least, and each is charged what its runs have used.
    SharesAreFair,
    /// A child takes no slot of its tenant, and none of a group in which a run above it counts.
    ChildInItsRootsSlot,
    /// A live child has a step that waits for it, or is cancelled.
    ChildIsWanted,
    /// The end of a child reaches the step that waits for it.
    ChildEndArrives,
    /// An event that was acknowledged reaches the step that waits for it, or is kept for one.
    EventArrives,
    /// An event is taken once.
    EventOnce,
    /// A lock, a slot, and what is left of a budget, goes to the first waiter.
    LineIsKept,
    /// A waiter gets its lock, once faults have stopped.
    LineMoves,
    /// Every run ends once faults have stopped.
    EveryRunEnds,
    /// What has ended leaves nothing behind in the indexes.
    NothingIsLeft,
    /// The store itself neither fails nor loses rows, and no task panics.
    NothingBreaks,
}

/// The first promise that a seed broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub seed: u64,
    pub planted: Option<Bug>,
    pub invariant: Invariant,
    pub what: String,
    /// Simulated time since the beginning.
    pub at: Duration,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, planted, invariant: _, what, at } = self;
        write!(out, "seed {seed} failed: {what} at {:.3}s; ", at.as_secs_f64())?;
        write!(out, "replay: cargo xtask simulate --seed {seed}")?;
        match planted {
            Some(bug) => write!(out, " --plant {}", bug.name()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}
