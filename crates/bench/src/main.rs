//! Benchmarks of the binary, each beside a ceiling measured in the same run on the same machine.
//!
//! Absolute numbers of a shared machine say little; the ratio to what the machine can do says a lot.

mod bombs;
mod connection;
mod empty_server;
mod group_commit;
mod limits;
mod load;
mod locks;
mod memory;
mod progress;
mod redis;
mod replicas;
mod report;
mod results;
mod runs;
mod server;
mod starts;
mod targets;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Parser;
use load::Measured;
use report::Report;

#[derive(Debug, Clone, Parser)]
#[command(
    name = "cargo xtask bench",
    about = "Measure starts, refusals, runs and memory beside their ceilings"
)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags of a command line")]
struct Arguments {
    /// How long each measurement lasts.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Rounds; the median of each figure is reported.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Idle active runs for the memory figure; 0 leaves it out.
    #[arg(long, default_value_t = 100_000)]
    idle_runs: usize,
    /// Measure one gateway on a real Redis and a real NATS, beside the bare script.
    #[arg(long)]
    redis: bool,
    /// Measure one lock and many who want it, over three replicas on a real Redis and a real NATS.
    #[arg(long, conflicts_with = "redis")]
    locks: bool,
    /// Measure many results for one run beside as many for a run each, over three replicas on a real Redis and a real
    /// NATS.
    #[arg(long, conflicts_with_all = ["redis", "locks"])]
    results: bool,
    /// Throw the bombs of one tenant in a loop while another one starts runs, on one machine and on Redis and NATS; fail if
    /// the other one's starts get slow or memory does not return.
    #[arg(long, conflicts_with_all = ["redis", "locks", "results"])]
    bombs: bool,
    /// Measure what named limits cost, on one machine and on Redis and NATS.
    #[arg(long, conflicts_with_all = ["redis", "locks", "results", "bombs"])]
    limits: bool,
    /// Only on this installation, where a measurement has two.
    #[arg(long, value_enum)]
    on: Option<Kind>,
    /// Groups of one limit to compare ten with.
    #[arg(long, default_value_t = 1_000_000, requires = "limits")]
    groups_many: u32,
    /// Queued runs to compare none with.
    #[arg(long, default_value_t = 1_000_000, requires = "limits")]
    queued_many: u32,
    /// How many results.
    #[arg(long, default_value_t = 1_000, requires = "results")]
    results_count: usize,
    /// How many want the lock.
    #[arg(long, default_value_t = 1_000, requires = "locks")]
    contenders: usize,
    /// Active runs to compare 1,000 with; 0 leaves it out.
    #[arg(long, default_value_t = 1_000_000, requires = "redis")]
    runs_many: u64,
    /// Idempotency keys to compare 1,000 with; 0 leaves it out.
    #[arg(long, default_value_t = 5_000_000, requires = "redis")]
    keys_many: u64,
    /// Only the measurements whose names begin so.
    #[arg(long)]
    only: Option<String>,
    /// JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// The binary to measure; the one beside this program by default.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Serve an empty handler on this port instead of measuring (the ceiling is a process of its own).
    #[arg(long, hide = true)]
    empty_server: bool,
}

/// What the server stores in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Embedded,
    Redis,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Embedded => "one machine",
            Self::Redis => "Redis and NATS",
        }
    }
}

impl Arguments {
    fn kinds(&self) -> Vec<Kind> {
        self.on.map_or_else(|| vec![Kind::Embedded, Kind::Redis], |only| vec![only])
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    fn wanted(&self, names: &[&'static str]) -> Vec<&'static str> {
        let only = self.only.as_deref().unwrap_or_default();
        names.iter().copied().filter(|name| name.starts_with(only)).collect()
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.empty_server {
        return runtime(2)?.block_on(empty_server::serve());
    }
    let binary = server::binary(arguments.binary.as_deref())?;
    if arguments.redis {
        let report = runtime(1)?.block_on(redis::measure(&arguments, &binary))?;
        return report.print(&targets::redis(&report), arguments.json);
    }
    if arguments.locks {
        let report = runtime(1)?.block_on(locks::measure(&arguments, &binary))?;
        return report.print(&targets::locks(&report), arguments.json);
    }
    if arguments.results {
        let report = runtime(1)?.block_on(results::measure(&arguments, &binary))?;
        return report.print(&targets::results(&report), arguments.json);
    }
    if arguments.bombs {
        return runtime(1)?.block_on(bombs::measure(&arguments, &binary));
    }
    if arguments.limits {
        return runtime(1)?.block_on(limits::measure(&arguments, &binary));
    }
    let report = runtime(1)?.block_on(measure(&arguments, &binary))?;
    report.print(&targets::embedded(&report), arguments.json)
}

/// The server gets the default number of threads; the load, which shares the machine with it, gets one.
fn runtime(threads: usize) -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?)
}

/// What is measured, each by its name.
const MEASUREMENTS: [&str; 8] = [
    "empty handler",
    "empty handler, 1 client",
    "bare group commit",
    "admitted starts",
    "admitted starts, 1 client",
    "refused starts",
    "refused starts, 1 client",
    "one-step runs",
];

async fn measure(arguments: &Arguments, binary: &Path) -> Result<Report> {
    let names = arguments.wanted(&MEASUREMENTS);
    let mut report = Report::default();
    let progress = progress::bar((arguments.rounds * names.len()) as u64)?;
    for _ in 0..arguments.rounds {
        for &name in &names {
            progress.set_message(name);
            report.add(name, measure_one(name, binary, arguments.time()).await?);
            progress.inc(1);
        }
    }
    if arguments.idle_runs > 0 && arguments.only.is_none() {
        progress.set_message("memory of idle runs");
        report.memory = Some(memory::per_idle_run(binary, arguments.idle_runs).await?);
    }
    progress.finish_and_clear();
    Ok(report)
}

/// A measurement's name tells how many clients it has.
fn clients(name: &str) -> usize {
    if name.ends_with("1 client") { 1 } else { 64 }
}

async fn measure_one(name: &str, binary: &Path, time: Duration) -> Result<Measured> {
    let clients = clients(name);
    match name.split(',').next().unwrap_or(name) {
        "empty handler" => starts::empty_handler(time, clients).await,
        "bare group commit" => group_commit::measure(time),
        "admitted starts" => starts::admitted(binary, time, clients).await,
        "refused starts" => starts::refused(binary, time, clients).await,
        "one-step runs" => runs::one_step(binary, time).await,
        other => bail!("there is no measurement {other}"),
    }
}
