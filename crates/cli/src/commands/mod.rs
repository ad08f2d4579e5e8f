//! What each command does. One file per noun.

pub(crate) mod approval;
pub(crate) mod budgets;
mod completions;
pub(crate) mod dispatch_policy;
pub(crate) mod dlq;
pub(crate) mod doctor;
pub(crate) mod drill;
mod durations;
pub(crate) mod events;
mod group;
pub(crate) mod jobs;
pub(crate) mod keys;
pub(crate) mod lab;
pub(crate) mod limits;
pub(crate) mod locks;
mod meter;
pub(crate) mod own_server;
mod pages;
pub(crate) mod retry_policy;
pub(crate) mod rollout;
pub(crate) mod run;
mod run_steps;
mod serve;
mod status;
mod wait_for;
mod watch;
pub(crate) mod why;
pub(crate) mod worker;
pub(crate) mod workers;
pub(crate) mod workflow;
pub(crate) mod workflow_file;

use interlock_api::client::Client;
use interlock_api::{Page, PageQuery};
use serde::Serialize;

use crate::arguments::{Arguments, Command, ListFlags};
use crate::config::{self, Environment};
use crate::exit::{Exit, Result};
use crate::output::{Column, Output, say, table};

/// What every command that calls a gateway needs.
pub(crate) struct Session {
    pub(crate) client: Client,
    /// The tenant that flags or environment name, if any.
    pub(crate) tenant: Option<String>,
    pub(crate) output: Output,
}

impl Session {
    /// Prints a list up to its limit.
    async fn list<T: Serialize>(
        &self,
        listing: ListFlags,
        columns: &[Column<T>],
        fetch: impl AsyncFn(PageQuery) -> interlock_api::client::Result<Page<T>>,
    ) -> Result<()> {
        let page = pages::collect(listing, fetch).await?;
        self.output.result(&page, |page| table(columns, &page.items))?;
        if !self.output.is_json() && page.next_cursor.is_some() {
            say(&format!("There are more than these {}: --limit N lists more", page.items.len()));
        }
        Ok(())
    }
}

pub(crate) async fn run(arguments: Arguments, environment: &Environment, output: Output) -> Result<Exit> {
    let settings = config::connection(&arguments.connection, environment);
    let tenant = settings.tenant.clone();
    let session = || -> Result<Session> { Ok(Session { client: Client::new(settings)?, tenant, output }) };
    match arguments.command {
        Command::Serve(flags) => Box::pin(serve::run(&flags, environment)).await,
        Command::Completions { shell } => completions::run(shell).map(done),
        Command::Workflow(workflow) => workflow::run(workflow, output, session).await,
        Command::Run(run) => run::run(run, &session()?).await,
        Command::Event(event) => events::run(event, &session()?).await.map(done),
        Command::Approval(approval) => approval::run(approval, &session()?).await.map(done),
        Command::Worker(worker) => worker::run(worker, session()?).await,
        Command::Budgets(budgets) => budgets::run(budgets, &session()?).await.map(done),
        Command::Limits(limits) => limits::run(limits, &session()?).await.map(done),
        Command::Locks(locks) => locks::run(locks, output, session).await,
        Command::RetryPolicy(command) => retry_policy::run(command, output, session).await.map(done),
        Command::Rollout(command) => rollout::run(command, &session()?).await.map(done),
        Command::Keys(keys) => keys::run(keys, &session()?).await.map(done),
        Command::Workers(workers) => workers::run(workers, &session()?).await.map(done),
        Command::Jobs(jobs) => jobs::run(jobs, &session()?).await.map(done),
        Command::DispatchPolicy(command) => dispatch_policy::run(command, &session()?).await.map(done),
        Command::Dlq(dlq) => dlq::run(dlq, &session()?).await,
        Command::Doctor(doctor) => doctor::run(doctor, output, session).await,
        Command::Drill(drill) => {
            let way = own_server::Way::new(&arguments.connection, environment);
            Box::pin(drill::run(drill, way, output)).await
        }
        Command::DrillParty(party) => drill::party(party).await,
        Command::Lab(lab) => {
            let way = own_server::Way::new(&arguments.connection, environment);
            Box::pin(lab::run(lab, way, arguments.connection.tenant, output)).await
        }
        Command::Why(why) => why::run(why, &session()?).await.map(done),
        Command::Status => status::run(&session()?).await.map(done),
    }
}

/// The host's name, for ids that people recognize.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '-';
    let name: String = name.trim().chars().filter(is_plain).take(60).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}

fn done((): ()) -> Exit {
    Exit::Done
}
