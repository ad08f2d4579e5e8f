//! `interlock`: the one binary. `serve` runs the server; every other command calls one over HTTP.
//!
//! * [`arguments`]: the command line
//! * [`config`]: flags, environment and file, merged; only this module reads the environment
//! * [`commands`]: what each command does, one file per noun
//! * [`input`], [`output`]: JSON in; results and messages out
//! * [`telemetry`]: the log, and spans for a collector
//! * [`exit`]: failures and exit codes

mod arguments;
mod commands;
mod config;
mod exit;
mod input;
mod output;
mod telemetry;
mod tls_hint;
mod wiring;

use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use config::Environment;
use exit::Exit;
use output::Output;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // A pager that was closed before it had read all help is not a failure.
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
        .and_then(|runtime| {
            let end = runtime.block_on(Box::pin(commands::run(arguments, &environment, output)));
            // A turn that hangs must not keep the process from ending.
            runtime.shutdown_background();
            end
        });
    match end {
        Ok(exit) => exit.into(),
        Err(failure) => output.failure(&failure).into(),
    }
}
