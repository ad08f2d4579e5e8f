//! Benchmarks of the binary, each beside a ceiling measured in the same run on the same machine.
//!
//! Absolute numbers of a shared machine say little; the ratio to what the machine can do says a lot.

mod connection;
mod empty_server;
mod group_commit;
mod load;
mod memory;
mod report;
mod runs;
mod server;
mod starts;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use report::Report;

#[derive(Debug, Clone, Parser)]
#[command(
    name = "cargo xtask bench",
    about = "Measure starts, refusals, runs and memory beside their ceilings"
)]
struct Arguments {
    /// How long each measurement lasts.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Rounds; the median of each figure is told.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Idle active runs for the memory figure; 0 leaves it out.
    #[arg(long, default_value_t = 100_000)]
    idle_runs: usize,
    /// JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// The binary to measure; the release build beside this program by default.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Serve an empty handler on this port instead of measuring (the ceiling is a process of its own).
    #[arg(long, hide = true)]
    empty_server: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.empty_server {
        return runtime(2)?.block_on(empty_server::serve());
    }
    let report = runtime(1)?.block_on(measure(&arguments))?;
    report.print(arguments.json)
}

/// The server gets the default number of threads; the load, which shares the machine with it, gets one.
fn runtime(threads: usize) -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?)
}

async fn measure(arguments: &Arguments) -> Result<Report> {
    let binary = server::binary(arguments.binary.as_deref())?;
    let time = Duration::from_secs_f64(arguments.seconds);
    let mut report = Report::default();
    let steps = arguments.rounds as u64 * 7 + 1;
    let progress = indicatif::ProgressBar::new(steps).with_message("measuring");
    progress.set_style(indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}")?);
    for _ in 0..arguments.rounds {
        progress.set_message("ceiling: empty handler");
        report.add("empty handler", starts::empty_handler(time, 64).await?);
        progress.inc(1);
        report.add("empty handler, 1 client", starts::empty_handler(time, 1).await?);
        progress.inc(1);
        progress.set_message("ceiling: bare group commit");
        report.add("bare group commit", group_commit::measure(time)?);
        progress.inc(1);
        progress.set_message("admitted starts");
        report.add("admitted starts", starts::admitted(&binary, time, 64).await?);
        report.add("admitted starts, 1 client", starts::admitted(&binary, time, 1).await?);
        progress.inc(1);
        progress.set_message("refused starts");
        report.add("refused starts", starts::refused(&binary, time, 64).await?);
        progress.inc(1);
        report.add("refused starts, 1 client", starts::refused(&binary, time, 1).await?);
        progress.inc(1);
        progress.set_message("one-step runs");
        report.add("one-step runs", runs::one_step(&binary, time).await?);
        progress.inc(1);
    }
    if arguments.idle_runs > 0 {
        progress.set_message("memory of idle runs");
        report.memory = Some(memory::per_idle_run(&binary, arguments.idle_runs).await?);
    }
    progress.finish_and_clear();
    Ok(report)
}
