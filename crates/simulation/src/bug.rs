//! Bugs that are planted on purpose: a simulation that misses them proves nothing.

/// A mistake that a store or a stage could make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Admission looks at the cap in one step and writes the run in another.
    CapBeforeWrite,
    /// The idempotency key is reserved in one step and the run is written in another.
    KeyBeforeRun,
    /// A result is accepted under any fence, however late.
    FenceNotCompared,
    /// The commit that ends a run releases its slot twice.
    SlotFreedTwice,
    /// Wake-ups are lost and no stage polls.
    WakeupLostForEver,
    /// A tenant at its cap refuses even the retry of a start that worked.
    ReplayAfterCap,
    /// A lock is granted without a look at who holds it.
    LockGrantedTwice,
    /// A lock is granted without a look at who stands in line.
    LineOvertaken,
    /// A start's hold on the admission lock is compared by its fence, and not by its time.
    HoldOutlivesItsLease,
    /// A result takes its run without a look at who holds it.
    BusyRunTaken,
    /// The commit that ends a run releases its slots, and grants none of them.
    ReleaseForgetsToGrant,
    /// A raised limit does not look at its queue.
    RaisedLimitForgetsItsQueue,
    /// A start is counted twice in its group.
    SlotCountedTwice,
    /// A start does not see how many runs a limit lets live.
    LimitIgnored,
    /// A release grants slots of a limit that is paused.
    PausedLimitGrants,
    /// A start gets all of its slots but one.
    OneSlotForgotten,
    /// The commit that ends a run keeps a slot of a limit.
    LimitSlotLeaked,
    /// A run that gets its slots stays in its queue.
    QueueEntryLeftBehind,
    /// A start does not see that a limit is paused.
    PausedLimitStarts,
    /// A start forgets when the last ones came.
    RateForgotten,
    /// The timers of limits are not written.
    LimitTimerForgotten,
    /// The last of a queue gets the slot.
    LastComesFirst,
    /// The heaviest group of a fair queue gets the slot.
    HeaviestGroupFirst,
    /// The end of a run does not correct what it was charged.
    ChargeNotCorrected,
    /// An idle group of a fair queue comes back with all that it has not used meanwhile.
    IdleGroupKeepsItsCredit,
    /// A replay of a debounced start is taken in as a newer one.
    ReplayExtendsQuiet,
    /// A debounced run keeps the input of its first start.
    OldestInputWins,
    /// A run whose quiet period ends does not see how many runs a limit lets live.
    QuietEndSkipsLimits,
    /// Newer starts delay a run for as long as they come.
    DelayWithoutEnd,
    /// A reservation looks at the ledger in one step and writes the permit in another.
    LedgerBeforePermit,
    /// A settlement does not look whether the permit was settled before.
    PermitSettledTwice,
    /// A permit is in no index by its end, so that it never expires.
    PermitNeverDue,
    /// What a permit had reserved is free again when it expires.
    ExpiredPermitForgotten,
    /// A result is recorded, and what its worker has spent is not.
    ResultNotSettled,
    /// A job that ends before a worker has it keeps what it has reserved.
    UnclaimedPermitLeaked,
    /// A repeated reservation of a job is counted again.
    JobReservedTwice,
    /// What a lost worker may have spent is free again.
    LostWorkerReleased,
    /// A tenant says that it has a version of the system's limits, and keeps the one before.
    SystemLimitNotCopied,
    /// A limit of the system that is raised or deleted does not look at the queues of tenants.
    SystemLimitForgetsItsQueues,
    /// A child takes a slot of its tenant.
    ChildTakesSlot,
    /// A child counts in a group in which a run above it counts.
    GroupAboveCounted,
    /// The commit that gives up a child does not cancel it.
    CancelForgetsChildren,
    /// The commit that ends a child does not post its end.
    ChildEndNotDelivered,
    /// A child that is given up before its start is started.
    GivenUpChildStarts,
    /// An event that comes before its step waits is forgotten.
    EventNotKept,
    /// An event is acknowledged and not posted.
    EventNotPosted,
    /// The ids of events are forgotten, so that one that is sent again is another one.
    EventIdForgotten,
    /// The commit that begins a wait for a key does not look at what is kept for it.
    KeptEventMissed,
    /// The commit that ends a wait for a key leaves it in the index.
    WaitLeftInIndex,
    /// The timeout of an attempt counts from its dispatch.
    TimeoutFromDispatch,
}

impl Bug {
    pub const ALL: [Self; 50] = [
        Self::CapBeforeWrite,
        Self::KeyBeforeRun,
        Self::FenceNotCompared,
        Self::SlotFreedTwice,
        Self::WakeupLostForEver,
        Self::ReplayAfterCap,
        Self::LockGrantedTwice,
        Self::LineOvertaken,
        Self::HoldOutlivesItsLease,
        Self::BusyRunTaken,
        Self::ReleaseForgetsToGrant,
        Self::RaisedLimitForgetsItsQueue,
        Self::SlotCountedTwice,
        Self::LimitIgnored,
        Self::PausedLimitGrants,
        Self::OneSlotForgotten,
        Self::LimitSlotLeaked,
        Self::QueueEntryLeftBehind,
        Self::PausedLimitStarts,
        Self::RateForgotten,
        Self::LimitTimerForgotten,
        Self::LastComesFirst,
        Self::HeaviestGroupFirst,
        Self::ChargeNotCorrected,
        Self::IdleGroupKeepsItsCredit,
        Self::ReplayExtendsQuiet,
        Self::OldestInputWins,
        Self::QuietEndSkipsLimits,
        Self::DelayWithoutEnd,
        Self::LedgerBeforePermit,
        Self::PermitSettledTwice,
        Self::PermitNeverDue,
        Self::ExpiredPermitForgotten,
        Self::ResultNotSettled,
        Self::UnclaimedPermitLeaked,
        Self::JobReservedTwice,
        Self::LostWorkerReleased,
        Self::SystemLimitNotCopied,
        Self::SystemLimitForgetsItsQueues,
        Self::ChildTakesSlot,
        Self::GroupAboveCounted,
        Self::CancelForgetsChildren,
        Self::ChildEndNotDelivered,
        Self::GivenUpChildStarts,
        Self::EventNotKept,
        Self::EventNotPosted,
        Self::EventIdForgotten,
        Self::KeptEventMissed,
        Self::WaitLeftInIndex,
        Self::TimeoutFromDispatch,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::CapBeforeWrite => "cap-before-write",
            Self::KeyBeforeRun => "key-before-run",
            Self::FenceNotCompared => "fence-not-compared",
            Self::SlotFreedTwice => "slot-freed-twice",
            Self::WakeupLostForEver => "wakeup-lost-for-ever",
            Self::ReplayAfterCap => "replay-after-cap",
            Self::LockGrantedTwice => "lock-granted-twice",
            Self::LineOvertaken => "line-overtaken",
            Self::HoldOutlivesItsLease => "hold-outlives-its-lease",
            Self::BusyRunTaken => "busy-run-taken",
            Self::ReleaseForgetsToGrant => "release-forgets-to-grant",
            Self::RaisedLimitForgetsItsQueue => "raised-limit-forgets-its-queue",
            Self::SlotCountedTwice => "slot-counted-twice",
            Self::LimitIgnored => "limit-ignored",
            Self::PausedLimitGrants => "paused-limit-grants",
            Self::OneSlotForgotten => "one-slot-forgotten",
            Self::LimitSlotLeaked => "limit-slot-leaked",
            Self::QueueEntryLeftBehind => "queue-entry-left-behind",
            Self::PausedLimitStarts => "paused-limit-starts",
            Self::RateForgotten => "rate-forgotten",
            Self::LimitTimerForgotten => "limit-timer-forgotten",
            Self::LastComesFirst => "last-comes-first",
            Self::HeaviestGroupFirst => "heaviest-group-first",
            Self::ChargeNotCorrected => "charge-not-corrected",
            Self::IdleGroupKeepsItsCredit => "idle-group-keeps-its-credit",
            Self::ReplayExtendsQuiet => "replay-extends-quiet",
            Self::OldestInputWins => "oldest-input-wins",
            Self::QuietEndSkipsLimits => "quiet-end-skips-limits",
            Self::DelayWithoutEnd => "delay-without-end",
            Self::LedgerBeforePermit => "ledger-before-permit",
            Self::PermitSettledTwice => "permit-settled-twice",
            Self::PermitNeverDue => "permit-never-due",
            Self::ExpiredPermitForgotten => "expired-permit-forgotten",
            Self::ResultNotSettled => "result-not-settled",
            Self::UnclaimedPermitLeaked => "unclaimed-permit-leaked",
            Self::JobReservedTwice => "job-reserved-twice",
            Self::LostWorkerReleased => "lost-worker-released",
            Self::SystemLimitNotCopied => "system-limit-not-copied",
            Self::SystemLimitForgetsItsQueues => "system-limit-forgets-its-queues",
            Self::ChildTakesSlot => "child-takes-slot",
            Self::GroupAboveCounted => "group-above-counted",
            Self::CancelForgetsChildren => "cancel-forgets-children",
            Self::ChildEndNotDelivered => "child-end-not-delivered",
            Self::GivenUpChildStarts => "given-up-child-starts",
            Self::EventNotKept => "event-not-kept",
            Self::EventNotPosted => "event-not-posted",
            Self::EventIdForgotten => "event-id-forgotten",
            Self::KeptEventMissed => "kept-event-missed",
            Self::WaitLeftInIndex => "wait-left-in-index",
            Self::TimeoutFromDispatch => "timeout-from-dispatch",
        }
    }

    /// The bug of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| bug.name() == name)
    }
}
