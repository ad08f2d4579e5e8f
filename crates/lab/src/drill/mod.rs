//! The drill: pauses a holder past its lease, lets a contender take over and write, and resumes the holder.
//!
//! Holder and contender are processes and real clients of the server. Each acquires a job and a lock, and writes under
//! the lock's fence to a `ledger` outside of the server. Every late write must be refused, and no write of a live holder.
//!
//! * `plan`: the operations and their expected outcomes; `names`: their display names
//! * `verdict`: compares observations with the plan (pure)
//! * [`participant`]: the holder and the contender; `protocol`: their messages; `process`: starts and pauses them
//! * `runner`: the course of the drill; `cleanup`: deletes what it created

mod cleanup;
mod ledger;
mod names;
pub mod participant;
mod plan;
mod process;
mod protocol;
mod runner;
mod verdict;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use interlock_api::client::{Client, ClientSettings, Error};
use interlock_model::time::millis;
use serde::Serialize;

pub use plan::DrillPlan;
use runner::{DrillError, DrillRunner};
pub use verdict::{DrillRow, DrillVerdict};

/// How long the drill may take beyond its leases: processes start, and the server looks for lost workers.
const OVERHEAD: Duration = Duration::from_secs(30);

/// How many leases the drill takes: one before the pause, one during it, and twice that on a busy machine.
const LEASES: u32 = 4;

#[derive(Clone)]
pub struct DrillSettings {
    pub connection: ClientSettings,
    /// A program that calls [`participant::run`], and its arguments.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// The folder of the ledger.
    pub folder: PathBuf,
}

#[derive(Debug, Clone, Serialize)]
pub struct DrillReport {
    pub verdict: DrillVerdict,
    /// Why the drill is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The name of its workflow, topic and lock.
    pub name: String,
    /// The kind of the server's backend, such as `embedded`; null if the server was not reached.
    pub backend: Option<String>,
    /// Whether the ledger compared fences.
    pub guarded: bool,
    pub ttl_ms: u64,
    /// How long the holder was paused; null if it was not.
    pub paused_ms: Option<u64>,
    pub elapsed_ms: u64,
    pub rows: Vec<DrillRow>,
    /// What the cleanup could not delete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
}

impl DrillReport {
    /// The report of a drill that could not begin.
    pub fn not_started(plan: &DrillPlan, reason: impl Into<String>) -> Self {
        Self {
            verdict: DrillVerdict::Unknown,
            reason: Some(reason.into()),
            name: plan.name.clone(),
            backend: None,
            guarded: plan.guarded,
            ttl_ms: millis(plan.ttl),
            paused_ms: None,
            elapsed_ms: 0,
            rows: Vec::new(),
            left_behind: Vec::new(),
        }
    }

    /// The result in one sentence.
    pub fn summary(&self) -> String {
        verdict::summary(&self.rows, self.paused_ms)
    }
}

/// Runs the drill until it ends or `interrupted` completes, and deletes what it created. Fails only if the connection
/// settings are invalid.
pub async fn run(
    plan: &DrillPlan,
    settings: &DrillSettings,
    progress: &dyn Fn(&str),
    interrupted: impl Future<Output = ()>,
) -> Result<DrillReport, Error> {
    let started = Instant::now();
    let client = Client::new(settings.connection.clone())?;
    let mut runner = DrillRunner::new(plan, settings, &client);
    let limit = OVERHEAD + plan.ttl * LEASES;
    let error = tokio::select! {
        result = runner.execute(progress) => result.err(),
        () = tokio::time::sleep(limit) => Some(DrillError::TimedOut(limit)),
        () = interrupted => Some(DrillError::Interrupted),
    };
    runner.kill_participants().await;
    progress("cleaning up");
    let left_behind = runner.clean_up().await;
    let DrillRunner { observations, backend, paused, .. } = runner;
    let rows = verdict::evaluate(&observations, plan.ttl);
    let verdict = verdict::overall(&rows);
    Ok(DrillReport {
        // An incomplete drill has not held, whatever it has observed.
        verdict: if error.is_some() { verdict.max(DrillVerdict::Unknown) } else { verdict },
        reason: error.map(|error| error.to_string()),
        backend,
        paused_ms: paused.map(millis),
        elapsed_ms: millis(started.elapsed()),
        rows: if observations.is_empty() { Vec::new() } else { rows },
        left_behind,
        ..DrillReport::not_started(plan, String::new())
    })
}
