//! What is done where several want the same thing at once: strategies, their tunings, and the figures that tell how
//! well they serve.

mod figures;
mod histogram;
mod tuning;

pub use figures::{Arm, Figures};
pub use histogram::Histogram;
pub use tuning::{AdmissionStrategy, RunStrategy, Scope, Tuning};
