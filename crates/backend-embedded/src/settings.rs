//! What an operator may choose about the embedded store.

/// How many threads read, and how much may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Threads that read. At least one is started.
    pub readers: usize,
    /// The most decisions in one transaction. At least one is taken.
    pub batch_max: usize,
    /// The most requests that wait for the writer, and the most that wait for a reader. More wait for room.
    pub queue_max: usize,
    pub synchronous: Synchronous,
}

impl Default for Settings {
    fn default() -> Self {
        Self { readers: 2, batch_max: 256, queue_max: 1024, synchronous: Synchronous::Full }
    }
}

/// What an answer outlives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synchronous {
    /// The end of the process and the loss of power. Under group commit this is nearly free.
    Full,
    /// The end of the process only.
    Normal,
}

impl Synchronous {
    pub(crate) fn pragma(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}
