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
    /// A reservation looks at the ledger in one step and writes the permit in another.
    LedgerBeforePermit,
    /// A settlement does not look whether the permit was settled before.
    PermitSettledTwice,
    /// A permit is in no index by its end, so that it never expires.
    PermitNeverDue,
    /// What a permit had reserved is free again when it expires.
    ExpiredPermitForgotten,
}

impl Bug {
    pub const ALL: [Self; 14] = [
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
        Self::LedgerBeforePermit,
        Self::PermitSettledTwice,
        Self::PermitNeverDue,
        Self::ExpiredPermitForgotten,
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
            Self::LedgerBeforePermit => "ledger-before-permit",
            Self::PermitSettledTwice => "permit-settled-twice",
            Self::PermitNeverDue => "permit-never-due",
            Self::ExpiredPermitForgotten => "expired-permit-forgotten",
        }
    }

    /// The bug of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| bug.name() == name)
    }
}
