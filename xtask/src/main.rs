//! What developers run: `cargo xtask check | test | tidy | bench | simulate | soak`.

mod command;
mod measuring;
mod programs;
mod secrets;
mod stages;
mod suite;
mod targets;
mod tidy;
mod tools;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Develop Interlock")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check style, formatting and lints: the inner loop
    Check,
    /// Run everything that decides whether a change lands
    Test {
        /// Run only the tests that start no server and no other program
        #[arg(long)]
        fast: bool,
    },
    /// Check the style rules that no other tool checks
    Tidy,
    /// Measure against ceilings of the same run, in the build that is shipped (`bench -- --help` lists options)
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the whole-system simulation over many seeds, in a release build
    Simulate {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run what takes longer than a test may: more kills, chaos and fuzzing, bombs in a loop, a hundred thousand seeds
    Soak,
}

fn main() -> Result<()> {
    match Arguments::parse().task {
        Task::Check => suite::check(),
        Task::Test { fast: true } => suite::test_fast(),
        Task::Test { fast: false } => suite::test(),
        Task::Tidy => tidy::check(),
        Task::Bench { arguments } => measuring::bench(&arguments),
        Task::Simulate { arguments } => measuring::simulate(&arguments),
        Task::Soak => measuring::soak(),
    }
}
