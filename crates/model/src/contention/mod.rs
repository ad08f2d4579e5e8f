//! Contention: strategies, their tunings, rollouts of retry policies, and the measurements that compare them.

mod book;
mod cohorts;
mod estimate;
mod figures;
mod histogram;
mod judge;
mod rollout;
mod survival;
mod tuning;
mod versions;

pub use book::{Book, BookError, NewRollout, Signed};
pub use cohorts::Cohorts;
pub use estimate::Estimate;
pub use figures::{Arm, Figures, Measured, ResultEvent};
pub use histogram::Histogram;
pub use judge::{ArmSummaries, ArmSummary, Judgement, Trial};
pub use rollout::{Guards, Rollout, RolloutEvent, RolloutEventKind, RolloutState, Share, arm_of};
pub use tuning::{AdmissionStrategy, RunStrategy, Scope, Tuning};
pub use versions::{Version, Versions};
