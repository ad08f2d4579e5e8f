//! The contention lab: the same load on different strategies and retry policies, measured side by side.
//!
//! * [`plan`]: which arms are measured, under what load (pure, from a seed)
//! * [`ground`]: on what: servers of the lab's own, or one that is there
//! * `load`: the load itself, and what it saw ([`trace`]); `clean`: what is removed afterwards
//! * [`figures`]: what a trace comes to (pure); [`report`]: all of it, as it is printed
//! * [`chart`]: pictures of it; [`paper`]: the files that are written

pub mod chart;
mod clean;
mod conduct;
pub mod figures;
pub mod ground;
mod load;
pub mod paper;
pub mod plan;
pub mod report;
pub mod trace;

use std::time::Instant;

use interlock_model::time::millis;

use conduct::{Conduct, Trouble};
use ground::{Ground, LaunchError};
use plan::Plan;
use report::Report;

/// How far the lab has come: arms behind it, arms in all, and the one it is at.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    pub done: usize,
    pub arms: usize,
    pub doing: &'a str,
}

/// Why there is nothing to report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Api(#[from] interlock_api::client::Error),
    /// No server of the lab's own could be started.
    #[error("{0}")]
    Launch(LaunchError),
}

/// Measures what is planned, or as much of it as there is time for before `interrupted` ends, and removes what it made.
pub async fn run(
    plan: &Plan,
    ground: &Ground<'_>,
    progress: &(dyn Fn(Progress<'_>) + Sync),
    interrupted: impl Future<Output = ()>,
) -> Result<Report, Error> {
    let begun = Instant::now();
    let mut conduct = Conduct::new(plan, ground, progress);
    let reason = tokio::select! {
        end = conduct.run() => match end {
            Ok(()) => None,
            Err(Trouble::Launch(error)) => return Err(Error::Launch(error)),
            Err(Trouble::Api(error)) => return Err(Error::Api(error)),
        },
        () = interrupted => Some("it was interrupted".to_owned()),
    };
    let (scenarios, backend, left_behind) = conduct.end().await;
    Ok(Report {
        seed: plan.seed,
        size: plan.size,
        limit_ms: millis(plan.limit),
        backend,
        elapsed_ms: millis(begun.elapsed()),
        scenarios,
        reason,
        left_behind,
    })
}
