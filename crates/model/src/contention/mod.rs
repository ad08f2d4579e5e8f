//! What is done where several want the same thing at once: strategies, their tunings, and the figures that tell how
//! well they serve.

mod book;
mod estimate;
mod figures;
mod histogram;
mod judge;
mod rollout;
mod tuning;
mod versions;

pub use book::{Book, BookError, NewRollout, Signed};
pub use estimate::Estimate;
pub use figures::{Arm, Figures, Measured};
pub use histogram::Histogram;
pub use judge::{ArmSummary, Judgement, Trial};
pub use rollout::{Guards, Rollout, RolloutEvent, RolloutEventKind, RolloutState, Share, arm_of};
pub use tuning::{AdmissionStrategy, RunStrategy, Scope, Tuning};
pub use versions::{Version, Versions};
