//! `interlock drill`: pauses a holder past its lease, and shows what becomes of its late writes.

use std::io::{self, BufReader};
use std::time::Duration;

use clap::Args;
use interlock_lab::drill::plan::Plan;
use interlock_lab::drill::verdict::{Row, Verdict, sentence};
use interlock_lab::drill::{self, Launch, Progress, Report, Setting, party};

use super::meter::Meter;
use super::own_server::{OwnServer, Standing, Way};
use super::serve::Stops;
use crate::exit::{Exit, Failure, Result};
use crate::output::{Output, or_dash, say, table};

pub(crate) const EXAMPLES: &str = "\
Two processes of its own, a holder and a contender, take turns at a job, a lock, and a file that
is written under the lock's fence. The holder is paused past its lease (SIGSTOP), the contender
takes over and writes, the holder goes on and writes, too. Every late write must be refused, and
no write of whoever holds. Without --gateway or --redis it starts a server of its own in a
temporary folder. It removes its run, workflow, lock, processes and folder; on a store that stays,
the names of its two workers and what is remembered of deleted things stay, too. On a server with
keys it needs an admin's.

Exit codes: 0 held; 1 broken, see the table; 3 it could not be told.

Examples:
  interlock drill
  interlock drill --gateway http://127.0.0.1:8081   # on a server that is there
  interlock drill --redis redis://127.0.0.1:6379 --nats nats://127.0.0.1:4222
  interlock drill --unguarded                       # what happens where nobody compares fences";

#[derive(Debug, Args)]
pub(crate) struct Drill {
    /// How long a lease lasts; the holder is paused for longer
    #[arg(long, value_name = "MS", default_value_t = 1_500, value_parser = clap::value_parser!(u64).range(1_000..=30_000))]
    ttl_ms: u64,
    /// Let the file take every write, whatever its fence, and see the drill find out
    #[arg(long)]
    unguarded: bool,
    #[command(flatten)]
    standing: Standing,
}

/// A process of the drill. Only the drill starts it.
#[derive(Debug, Args)]
pub(crate) struct DrillParty {
    /// For people who look at a list of processes
    name: String,
}

pub(super) async fn run(drill: Drill, way: Way, output: Output) -> Result<Exit> {
    let needs_server = way.needs_server(&drill.standing)?;
    // Before anything is there that would have to be removed.
    let mut stops = Stops::listen()?;
    let plan = Plan::new(Duration::from_millis(drill.ttl_ms), !drill.unguarded);
    let report = match conduct(&plan, needs_server.then_some(&drill.standing), way, &mut stops).await {
        Ok(report) => report,
        Err(failure) if failure.exit() == Exit::Usage => return Err(failure),
        Err(failure) => Report::not_begun(&plan, failure.to_string()),
    };
    show(&report, output)
}

pub(super) async fn party(DrillParty { .. }: DrillParty) -> Result<Exit> {
    let end = party::run(BufReader::new(io::stdin()), tokio::io::stdout()).await;
    end.map_err(io::Error::other).map_err(Failure::local("take part in the drill"))?;
    Ok(Exit::Done)
}

async fn conduct(plan: &Plan, own: Option<&Standing>, way: Way, stops: &mut Stops) -> Result<Report> {
    let folder = tempfile::Builder::new().prefix("interlock-drill-").tempdir();
    let folder = folder.map_err(Failure::local("make a temporary folder"))?;
    let program = std::env::current_exe().map_err(Failure::local("find this program"))?;
    let launch = Launch { program, arguments: vec!["drill-party".into()] };
    let setting = |connection| Setting { connection, party: launch, folder: folder.path().to_owned() };
    let spinner = Meter::spinner();
    let progress = |progress: Progress| spinner.tell(&progress.to_string());
    let mut report = if let Some(standing) = own {
        spinner.tell("starting a server");
        let data = folder.path().join("data");
        let server = tokio::select! {
            server = OwnServer::build(standing, &data, &[]) => server?,
            () = stops.next() => return Ok(Report::not_begun(plan, "it was interrupted".to_owned())),
        };
        let setting = setting(server.connection(way.connection));
        server.serve_while(Box::pin(drill::run(plan, &setting, &progress, stops.next()))).await?
    } else {
        Box::pin(drill::run(plan, &setting(way.connection), &progress, stops.next())).await?
    };
    drop(spinner);
    let path = folder.path().display().to_string();
    if let Err(error) = folder.close() {
        report.left_behind.push(format!("the folder {path}: {error}"));
    }
    Ok(report)
}

fn show(report: &Report, output: Output) -> Result<Exit> {
    for left in &report.left_behind {
        say(&format!("interlock: could not remove {left}"));
    }
    if let Some(reason) = &report.reason {
        say(&format!("interlock: the drill did not come to its end: {reason}"));
    }
    match output.result(report, describe) {
        // Nobody reads it, but the exit code is a result, too.
        Ok(()) | Err(Failure::Unread) => {}
        Err(failure) => return Err(failure),
    }
    Ok(match report.verdict {
        Verdict::Held => Exit::Done,
        Verdict::Broken => Exit::Refused,
        Verdict::Unknown => Exit::Unreachable,
    })
}

fn describe(report: &Report) -> String {
    let row = |row: &Row| {
        [
            row.who.to_string(),
            row.what.to_string(),
            or_dash(row.fence.as_ref()),
            row.expected.to_string(),
            or_dash(row.seen.as_ref()),
            row.finding.to_string(),
        ]
    };
    let rows = table(["WHO", "WHAT", "FENCE", "EXPECTED", "SEEN", "VERDICT"], report.rows.iter().map(row));
    let sentence = sentence(&report.rows, report.paused_ms.map(Duration::from_millis));
    if report.rows.is_empty() { sentence } else { format!("{rows}\n\n{sentence}") }
}
