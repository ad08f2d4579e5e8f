//! What developers run: `cargo xtask test | ci | tidy | bench | simulate | soak`.

mod command;
mod promtool;
mod python;
mod tidy;
mod tools;

use std::process::Command;

use anyhow::Result;
use clap::{Parser, Subcommand};
use command::{built, cargo, run};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Develop Interlock")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Formatting, lints, documentation, style and every test.
    Test,
    /// What `.ci/run` runs: the same as `test`.
    Ci,
    /// Style rules that no other tool checks.
    Tidy,
    /// Measures against ceilings of the same run, in the build that is shipped. See `--help` behind `--`.
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Runs the whole-system simulation over many seeds, in a release build.
    Simulate {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// What takes longer than a test may: a hundred kills under load, minutes of chaos, and a hundred thousand seeds.
    Soak,
}

fn main() -> Result<()> {
    match Arguments::parse().task {
        Task::Test | Task::Ci => test(),
        Task::Tidy => tidy::check(),
        Task::Bench { arguments } => bench(&arguments),
        Task::Simulate { arguments } => simulate(&arguments),
        Task::Soak => soak(),
    }
}

fn test() -> Result<()> {
    tidy::check()?;
    tools::provide()?;
    run(cargo(["fmt", "--all", "--check"]))?;
    run(cargo(["clippy", "--workspace", "--all-targets", "--all-features", "--", "--deny", "warnings"]))?;
    let mut documentation = cargo(["doc", "--workspace", "--no-deps", "--all-features"]);
    documentation.env("RUSTDOCFLAGS", "--deny warnings");
    run(documentation)?;
    run(cargo(["test", "--workspace", "--all-features"]))
}

fn bench(arguments: &[String]) -> Result<()> {
    if arguments.iter().any(|argument| ["--redis", "--locks", "--results"].contains(&argument.as_str())) {
        tools::provide()?;
    }
    // Built together: two builds with two sets of features would compile the heavy crates twice.
    run(cargo(["build", "--profile", "dist", "--package", "interlock-cli", "--package", "interlock-bench"]))?;
    let mut bench = Command::new(built("dist/interlock-bench")?);
    bench.args(arguments);
    run(bench)
}

fn simulate(arguments: &[String]) -> Result<()> {
    let mut simulation = cargo(["run", "--release", "--package", "interlock-simulation", "--"]);
    simulation.args(arguments);
    run(simulation)
}

fn soak() -> Result<()> {
    simulate(&["--seeds".to_owned(), "100000".to_owned()])?;
    tools::provide()?;
    let mut tests = cargo(["test", "--workspace", "--all-features", "--test", "e2e", "--", "--nocapture"]);
    // The same tests as in the test command, with more of what they do to the servers.
    tests.args(["kills::", "restarts::", "nats_workers::", "chaos::"]);
    tests.env("INTERLOCK_SOAK_KILLS", "100");
    tests.env("INTERLOCK_SOAK_REPLICA_KILLS", "30");
    tests.env("INTERLOCK_SOAK_RESTARTS", "20");
    tests.env("INTERLOCK_SOAK_CHAOS_SECONDS", "300");
    run(tests)
}
