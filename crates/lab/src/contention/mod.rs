//! The contention lab: puts the same load on different strategies and retry policies and compares the measurements.
//!
//! * [`plan`]: which arms are measured under which load (pure, derived from a seed)
//! * [`target`]: the servers under test, either started by the lab or already running
//! * `load`: generates the load and records a `trace`; `cleanup`: deletes what an arm created
//! * `figures`: statistics of a trace (pure); [`report`]: all results
//! * `chart`: SVG charts; [`files`]: the files of a report

mod chart;
mod cleanup;
mod figures;
pub mod files;
mod load;
pub mod plan;
pub mod report;
mod runner;
pub mod target;
mod trace;

use std::time::Instant;

use interlock_model::time::millis;

use plan::LabPlan;
use report::LabReport;
use runner::LabRunner;
use target::{LabTarget, LaunchError};

/// The number of finished arms, the number of all arms, and the current activity.
#[derive(Debug, Clone, Copy)]
pub struct LabProgress<'a> {
    pub done: usize,
    pub arms: usize,
    pub activity: &'a str,
}

/// Why the lab has nothing to report.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error(transparent)]
    Api(#[from] interlock_api::client::Error),
    /// The lab could not start a server of its own.
    #[error("{0}")]
    Launch(LaunchError),
}

/// Measures the arms of the plan until the time limit or until `interrupted` completes, and deletes what it created.
pub async fn run(
    plan: &LabPlan,
    target: &LabTarget<'_>,
    progress: &(dyn Fn(LabProgress<'_>) + Sync),
    interrupted: impl Future<Output = ()>,
) -> Result<LabReport, LabError> {
    let started = Instant::now();
    let mut runner = LabRunner::new(plan, target, progress);
    let reason = tokio::select! {
        result = runner.run() => {
            result?;
            None
        }
        () = interrupted => Some("interrupted".to_owned()),
    };
    runner.finish().await;
    let LabRunner { scenarios, backend, left_behind, .. } = runner;
    Ok(LabReport {
        seed: plan.seed,
        size: plan.size,
        limit_ms: millis(plan.limit),
        backend,
        elapsed_ms: millis(started.elapsed()),
        scenarios,
        reason,
        left_behind,
    })
}
