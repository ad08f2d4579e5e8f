//! `interlock`: the one binary. `serve` runs the server; every other command talks HTTP to one.
//!
//! * [`arguments`]: what may be typed
//! * [`config`]: flags, environment and file, merged; the only place that reads the environment
//! * [`commands`]: what each command does, a file for each noun
//! * [`input`], [`output`]: JSON in; results and words to people out
//! * [`telemetry`]: the log, and spans for a collector of traces
//! * [`exit`]: what the shell is told

mod arguments;
mod commands;
mod config;
mod exit;
mod input;
mod output;
mod telemetry;
mod wiring;

use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use config::Environment;
use exit::Exit;
use output::Output;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help on its way to a pager that was closed is no failure.
            let _printed = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    let output = Output::new(arguments.connection.json);
    let environment = Environment::of_process();
    let end = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(exit::Failure::local("start the runtime"))
        .and_then(|runtime| runtime.block_on(Box::pin(commands::run(arguments, &environment, output))));
    match end {
        Ok(exit) => exit.into(),
        Err(failure) => output.failure(&failure).into(),
    }
}
