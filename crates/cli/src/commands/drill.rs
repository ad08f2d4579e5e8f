//! `interlock drill`: pauses a holder past its lease and checks that its late writes are rejected.

use std::io;
use std::time::Duration;

use clap::Args;
use interlock_lab::drill::{
    self, DrillPlan, DrillReport, DrillRow, DrillSettings, DrillVerdict, participant,
};
use tokio::io::BufReader;

use super::meter::Meter;
use super::own_server::{OwnServer, Standing, Way};
use super::serve::Stops;
use crate::exit::{Exit, Failure, Result};
use crate::output::{Column, Output, or_dash, say, table};

pub(crate) const EXAMPLES: &str = "\
Two processes, a holder and a contender, acquire the same job and the same lock, and write to a
file under the lock's fence. The drill pauses the holder past its lease (SIGSTOP), lets the
contender take over and write, and resumes the holder, which then sends its late writes. Every late
write must be rejected, and every write of a live holder accepted. Without --gateway or --redis, the
drill starts its own server in a temporary folder. Afterwards it deletes its run, workflow, lock,
processes and folder. A persistent store keeps the names of its two workers and records of the
deleted objects. On a server with API keys it needs an admin key.

Exit codes: 0 as required; 1 a rule was broken, see the table; 3 inconclusive.

Examples:
  interlock drill
  interlock drill --gateway http://127.0.0.1:8081   # on an existing server
  interlock drill --redis redis://127.0.0.1:6379 --nats nats://127.0.0.1:4222
  interlock drill --unguarded                       # without a comparison of fences in the file";

#[derive(Debug, Args)]
pub(crate) struct Drill {
    /// Lease duration in milliseconds; the pause is longer
    #[arg(long, value_name = "MS", default_value_t = 1_500, value_parser = clap::value_parser!(u64).range(1_000..=30_000))]
    ttl_ms: u64,
    /// Let the file accept every write whatever its fence, to see the drill report it
    #[arg(long)]
    unguarded: bool,
    #[command(flatten)]
    standing: Standing,
}

/// A holder or a contender. Only the drill starts it.
#[derive(Debug, Args)]
pub(crate) struct DrillParty {
    /// Shown in process listings
    name: String,
}

pub(super) async fn run(drill: Drill, way: Way, output: Output) -> Result<Exit> {
    let needs_server = way.needs_server(&drill.standing)?;
    // Signals are handled before there is anything to clean up.
    let mut stops = Stops::listen()?;
    let plan = DrillPlan::new(Duration::from_millis(drill.ttl_ms), !drill.unguarded);
    let report = match run_plan(&plan, needs_server.then_some(&drill.standing), way, &mut stops).await {
        Ok(report) => report,
        Err(failure) if failure.exit() == Exit::Usage => return Err(failure),
        Err(failure) => DrillReport::not_started(&plan, failure.to_string()),
    };
    show(&report, output)
}

pub(super) async fn party(DrillParty { .. }: DrillParty) -> Result<Exit> {
    let result = participant::run(BufReader::new(tokio::io::stdin()), tokio::io::stdout()).await;
    result.map_err(io::Error::other).map_err(Failure::local("take part in the drill"))?;
    Ok(Exit::Done)
}

async fn run_plan(
    plan: &DrillPlan,
    own: Option<&Standing>,
    way: Way,
    stops: &mut Stops,
) -> Result<DrillReport> {
    let folder = tempfile::Builder::new().prefix("interlock-drill-").tempdir();
    let folder = folder.map_err(Failure::local("create a temporary folder"))?;
    let program = std::env::current_exe().map_err(Failure::local("find this program"))?;
    let settings = |connection| DrillSettings {
        connection,
        program,
        arguments: vec!["drill-party".into()],
        folder: folder.path().to_owned(),
    };
    let spinner = Meter::spinner();
    let progress = |activity: &str| spinner.tell(activity);
    let mut report = if let Some(standing) = own {
        spinner.tell("starting a server");
        let data = folder.path().join("data");
        let server = tokio::select! {
            server = OwnServer::build(standing, &data, &[]) => server?,
            () = stops.next() => return Ok(DrillReport::not_started(plan, "interrupted")),
        };
        let settings = settings(server.connection(way.connection));
        server.serve_while(Box::pin(drill::run(plan, &settings, &progress, stops.next()))).await?
    } else {
        Box::pin(drill::run(plan, &settings(way.connection), &progress, stops.next())).await?
    };
    drop(spinner);
    let path = folder.path().display().to_string();
    if let Err(error) = folder.close() {
        report.left_behind.push(format!("the folder {path}: {error}"));
    }
    Ok(report)
}

fn show(report: &DrillReport, output: Output) -> Result<Exit> {
    for left in &report.left_behind {
        say(&format!("interlock: could not remove {left}"));
    }
    if let Some(reason) = &report.reason {
        say(&format!("interlock: the drill is incomplete: {reason}"));
    }
    match output.result(report, describe) {
        // A closed standard output does not change the exit code.
        Ok(()) | Err(Failure::Unread) => {}
        Err(failure) => return Err(failure),
    }
    Ok(match report.verdict {
        DrillVerdict::Held => Exit::Done,
        DrillVerdict::Broken => Exit::Refused,
        DrillVerdict::Unknown => Exit::Unreachable,
    })
}

fn describe(report: &DrillReport) -> String {
    let columns: [Column<DrillRow>; 6] = [
        ("WHO", |row| row.actor.to_string()),
        ("WHAT", |row| row.operation.to_string()),
        ("FENCE", |row| or_dash(row.fence.as_ref())),
        ("EXPECTED", |row| row.expected.to_string()),
        ("SEEN", |row| or_dash(row.seen.as_ref())),
        ("VERDICT", |row| row.verdict.to_string()),
    ];
    let rows = table(&columns, &report.rows);
    let summary = report.summary();
    if report.rows.is_empty() { summary } else { format!("{rows}\n\n{summary}") }
}
