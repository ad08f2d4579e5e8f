//! The drill: a holder is paused past its lease, a contender takes over and writes, the holder goes on.
//!
//! Both are processes of their own, and real clients of the server. Each holds a job and a lock, and writes under the
//! lock's fence to a [`ledger`] outside of the server. Every late write must be refused, and no write of whoever holds.
//!
//! * [`plan`]: what is written by whom, and what must become of it
//! * [`verdict`]: what was seen, judged (pure)
//! * [`party`]: what the holder and the contender do; [`talk`]: what is said between them and the drill
//! * `process`, `conduct`, `clean`: the processes, the course of the drill, and what it removes after itself

mod clean;
mod conduct;
pub mod ledger;
pub mod party;
pub mod plan;
mod process;
pub mod talk;
pub mod verdict;

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use interlock_api::client::{Client, Error, Settings};
use interlock_model::time::millis;
use serde::Serialize;

use clean::Traces;
use conduct::{Conduct, Trouble};
use plan::Plan;
pub use process::Launch;
use verdict::{Row, Verdict};

/// What the drill takes beside its leases: processes that start, and a server that looks for lost workers.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many leases it takes: one before the pause, one in the pause, and as much again on a busy machine.
const LEASES: u32 = 4;

/// Where the drill takes place.
#[derive(Clone)]
pub struct Setting {
    pub connection: Settings,
    /// How a holder or a contender is started.
    pub party: Launch,
    /// Where the ledger is kept.
    pub folder: PathBuf,
}

/// How far the drill has come, in words for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Preparing,
    Holding,
    Trying,
    Paused,
    Resumed,
    Finishing,
    CleaningUp,
}

impl fmt::Display for Progress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Preparing => "saving a workflow and starting a run",
            Self::Holding => "the holder takes the lock and the job",
            Self::Trying => "the contender tries, and must not get them",
            Self::Paused => "the holder is paused; the contender waits for its leases to run out",
            Self::Resumed => "the holder goes on, and writes what it has to write",
            Self::Finishing => "the contender ends its work",
            Self::CleaningUp => "cleaning up",
        })
    }
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub verdict: Verdict,
    /// What kept the drill from coming to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What its workflow, its topic and its lock were called.
    pub name: String,
    /// The server's, such as `embedded`; null if it was not reached.
    pub backend: Option<String>,
    /// Whether the ledger compared fences.
    pub guarded: bool,
    pub ttl_ms: u64,
    /// How long the holder stood still; null if it did not come to that.
    pub paused_ms: Option<u64>,
    pub elapsed_ms: u64,
    pub rows: Vec<Row>,
    /// What could not be removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
}

impl Report {
    /// Of a drill that could not begin.
    #[must_use]
    pub fn not_begun(plan: &Plan, reason: String) -> Self {
        Self {
            verdict: Verdict::Unknown,
            reason: Some(reason),
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
}

/// Goes through the whole drill, or as far as it comes before `interrupted` ends, and removes what it has made.
/// Fails only if there can be no connection like that.
pub async fn run(
    plan: &Plan,
    setting: &Setting,
    progress: &dyn Fn(Progress),
    interrupted: impl Future<Output = ()>,
) -> Result<Report, Error> {
    let begun = Instant::now();
    let client = Client::new(setting.connection.clone())?;
    let mut traces = Traces::default();
    let mut conduct = Conduct::new(plan, setting, &client, &mut traces);
    let limit = PATIENCE + plan.ttl * LEASES;
    // Dropping the course of the drill kills its processes.
    let trouble = tokio::select! {
        end = conduct.run(progress) => end.err(),
        () = tokio::time::sleep(limit) => Some(Trouble::TooLong(limit)),
        () = interrupted => Some(Trouble::Interrupted),
    };
    let (seen, backend, paused) = conduct.end().await;
    progress(Progress::CleaningUp);
    let left_behind = traces.remove(&client).await;
    let rows = verdict::judge(&seen, plan.ttl);
    let verdict = verdict::overall(&rows);
    Ok(Report {
        // A drill that was cut short has not held, whatever it has seen.
        verdict: if trouble.is_some() { verdict.max(Verdict::Unknown) } else { verdict },
        reason: trouble.map(|trouble| trouble.to_string()),
        backend,
        paused_ms: paused.map(millis),
        elapsed_ms: millis(begun.elapsed()),
        // Where nothing was seen there is nothing to show.
        rows: if seen.is_empty() { Vec::new() } else { rows },
        left_behind,
        ..Report::not_begun(plan, String::new())
    })
}
