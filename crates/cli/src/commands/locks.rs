//! `interlock locks`: acquire, renew and release locks, and see who holds them and who waits.

mod inventory;
mod run;

use clap::{Args, Subcommand};
use interlock_api::locks::{
    AcquireRequest, ForceReleaseRequest, HolderView, LockDetail, LockEventView, LockGrant, LockHistoryQuery,
    LockView, ReleaseRequest, RenewRequest, TTL_MS_MAX, TTL_MS_MIN, WAIT_MS_MAX, WaiterView,
};
use interlock_api::schema;
use interlock_model::lock::{Inventory, LockMode};
use interlock_model::time::millis;
use interlock_model::{LockOwner, LockRequest, LockToken, Resource};
use serde_json::json;

use super::{Session, host_name};
use crate::arguments::{ListFlags, one_of};
use crate::exit::{Exit, Result};
use crate::output::{Column, Output, fields, or_dash, say, table};

const ACQUIRE_EXAMPLES: &str = "\
Prints the token, which renews and releases the lock; --json also shows the fence.
Exits with 1 if the lock is still held by another owner after --wait-ms.

Examples:
  TOKEN=$(interlock locks acquire deploy --ttl-ms 60000 --wait-ms 10000)
  interlock locks acquire deploy --request-id build-17   # safe to repeat";

#[derive(Debug, Subcommand)]
pub(crate) enum LocksCommand {
    /// List held locks, newest first
    List(ListFlags),
    /// Show who holds a lock and who waits for it
    Show {
        /// Name of the lock
        resource: Resource,
    },
    /// List the events of a lock, newest first
    History {
        /// Name of the lock
        resource: Resource,
        #[command(flatten)]
        listing: ListFlags,
    },
    /// Acquire a lock and print its token
    #[command(after_help = ACQUIRE_EXAMPLES)]
    Acquire(AcquireFlags),
    /// Renew the lease of a lock
    Renew(RenewFlags),
    /// Release a lock; releasing it again does nothing
    Release(LeaseFlags),
    /// Release a lock of another owner and record why
    #[command(
        after_help = "Example: interlock locks force-release deploy --expect-token t-… --reason 'machine lost'"
    )]
    ForceRelease(ForceReleaseFlags),
    /// Run a command while holding a lock
    #[command(after_help = run::EXAMPLES)]
    Run(run::LockRunFlags),
    /// List every kind of lock with its default lease; needs no server
    Inventory {
        /// Print a Markdown table, as in the documentation
        #[arg(long, conflicts_with = "json")]
        markdown: bool,
    },
}

/// Which lock, for whom and for how long.
#[derive(Debug, Args)]
pub(crate) struct LockRequestFlags {
    /// Name of the lock
    resource: Resource,
    /// Owner, for people to read [default: this machine and process]
    #[arg(long)]
    owner: Option<LockOwner>,
    /// Lock mode: one exclusive holder, or any number of shared ones
    #[arg(long, default_value = "exclusive", value_parser = one_of(LockMode::ALL, LockMode::name))]
    mode: LockMode,
    /// Lease duration unless renewed
    #[arg(long, value_name = "MS", default_value_t = ttl_default(), value_parser = ttl())]
    ttl_ms: u64,
    /// Wait for the lock for up to MS milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=WAIT_MS_MAX))]
    wait_ms: u64,
    /// Id of this request: repeated with the same id, it gets the same grant
    #[arg(long, value_name = "ID")]
    request_id: Option<LockRequest>,
}

impl LockRequestFlags {
    fn owner(&self) -> LockOwner {
        self.owner.clone().unwrap_or_else(this_process)
    }
}

#[derive(Debug, Args)]
pub(crate) struct AcquireFlags {
    #[command(flatten)]
    wanted: LockRequestFlags,
    /// Token of a lease that you hold: extends it under the same fence
    #[arg(long)]
    token: Option<LockToken>,
}

/// A lease that the caller holds.
#[derive(Debug, Args)]
pub(crate) struct LeaseFlags {
    /// Name of the lock
    resource: Resource,
    /// Token that `acquire` printed
    #[arg(long)]
    token: LockToken,
}

#[derive(Debug, Args)]
pub(crate) struct RenewFlags {
    #[command(flatten)]
    lease: LeaseFlags,
    /// Lease duration from now
    #[arg(long, value_name = "MS", default_value_t = ttl_default(), value_parser = ttl())]
    ttl_ms: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ForceReleaseFlags {
    /// Name of the lock
    resource: Resource,
    /// Token of the lease to end, as `show` prints it; any other lease stays
    #[arg(long, value_name = "TOKEN")]
    expect_token: LockToken,
    /// Reason, recorded in the lock's history
    #[arg(long)]
    reason: String,
}

pub(super) async fn run(
    command: LocksCommand,
    output: Output,
    session: impl FnOnce() -> Result<Session>,
) -> Result<Exit> {
    if let LocksCommand::Inventory { markdown } = command {
        return inventory::print(output, markdown).map(|()| Exit::Done);
    }
    call(command, session()?).await
}

async fn call(command: LocksCommand, session: Session) -> Result<Exit> {
    let Session { client, output, .. } = &session;
    match command {
        LocksCommand::List(listing) => {
            session.list(listing, &COLUMNS, async |page| client.locks(&page).await).await?;
        }
        LocksCommand::Show { resource } => output.result(&client.lock(resource).await?, describe)?,
        LocksCommand::History { resource, listing } => {
            let fetch = async |page| {
                client.lock_history(&LockHistoryQuery { resource: resource.clone(), page }).await
            };
            session.list(listing, &EVENTS, fetch).await?;
        }
        LocksCommand::Acquire(acquire) => {
            show_grant(*output, &client.acquire_lock(&acquire.request()).await?)?;
        }
        LocksCommand::Renew(RenewFlags { lease: LeaseFlags { resource, token }, ttl_ms }) => {
            show_grant(*output, &client.renew_lock(&RenewRequest { resource, token, ttl_ms }).await?)?;
        }
        LocksCommand::Release(LeaseFlags { resource, token }) => {
            client.release_lock(&ReleaseRequest { resource: resource.clone(), token }).await?;
            released(*output, &resource)?;
        }
        LocksCommand::ForceRelease(ForceReleaseFlags { resource, expect_token, reason }) => {
            let request = ForceReleaseRequest { resource: resource.clone(), expect_token, reason };
            client.force_release_lock(&request).await?;
            released(*output, &resource)?;
        }
        LocksCommand::Run(run) => return Box::pin(run::run(run, session)).await,
        LocksCommand::Inventory { .. } => unreachable!("it needs no session"),
    }
    Ok(Exit::Done)
}

impl AcquireFlags {
    fn request(self) -> AcquireRequest {
        AcquireRequest {
            owner: self.wanted.owner(),
            resource: self.wanted.resource,
            mode: self.wanted.mode,
            ttl_ms: self.wanted.ttl_ms,
            wait_ms: self.wanted.wait_ms,
            request_id: self.wanted.request_id,
            token: self.token,
        }
    }
}

/// The token goes to standard output, for scripts; the rest to standard error, for people.
fn show_grant(output: Output, grant: &LockGrant) -> Result<()> {
    if !output.is_json() {
        let LockGrant { resource, owner, fence, expires_at, .. } = grant;
        say(&format!("{owner} holds {resource} until {expires_at} with fence {fence}"));
    }
    output.result(grant, |grant| grant.token.to_string())
}

fn released(output: Output, resource: &Resource) -> Result<()> {
    output.done(&json!({"resource": resource, "released": true}), &format!("{resource} released"))
}

const COLUMNS: [Column<LockView>; 7] = [
    ("RESOURCE", |lock| lock.resource.to_string()),
    ("MODE", |lock| lock.mode.name().to_owned()),
    ("OWNER", |lock| lock.owner.to_string()),
    ("HOLDERS", |lock| lock.holders.len().to_string()),
    ("WAITING", |lock| lock.waiting.to_string()),
    ("FENCE", |lock| lock.fence.to_string()),
    ("EXPIRES", |lock| lock.expires_at.to_string()),
];

const HOLDERS: [Column<HolderView>; 5] = [
    ("OWNER", |holder| holder.owner.to_string()),
    ("TOKEN", |holder| or_dash(holder.token.as_ref())),
    ("FENCE", |holder| holder.fence.to_string()),
    ("ACQUIRED", |holder| holder.acquired_at.to_string()),
    ("EXPIRES", |holder| holder.expires_at.to_string()),
];

const WAITERS: [Column<WaiterView>; 4] = [
    ("POSITION", |waiter| waiter.position.to_string()),
    ("OWNER", |waiter| waiter.owner.to_string()),
    ("MODE", |waiter| waiter.mode.name().to_owned()),
    ("WAITED", |waiter| format!("{} ms", waiter.waiting_ms)),
];

const EVENTS: [Column<LockEventView>; 8] = [
    ("TIME", |event| event.time.to_string()),
    ("EVENT", |event| event.event.name().to_owned()),
    ("CAUSE", |event| schema::name(&event.cause)),
    ("OWNER", |event| event.owner.to_string()),
    ("FENCE", |event| event.fence.to_string()),
    ("TOKEN", |event| or_dash(event.token.as_ref())),
    ("BY", |event| or_dash(event.by.as_ref())),
    ("REASON", |event| or_dash(event.reason.as_ref())),
];

fn describe(lock: &LockDetail) -> String {
    let view = &lock.view;
    let facts = fields(&[
        ("resource", Some(view.resource.to_string())),
        ("mode", Some(view.mode.name().to_owned())),
        ("waiting", Some(view.waiting.to_string())),
    ]);
    let holders = table(&HOLDERS, &view.holders);
    if lock.line.is_empty() {
        return format!("{facts}\n\n{holders}");
    }
    format!("{facts}\n\n{holders}\n\n{}", table(&WAITERS, &lock.line))
}

fn ttl_default() -> u64 {
    millis(Inventory::user().ttl)
}

fn ttl() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(TTL_MS_MIN..=TTL_MS_MAX)
}

/// By which people find the process that holds a lock.
fn this_process() -> LockOwner {
    format!("{}:{}", host_name(), std::process::id()).parse().expect("a name and a number make an owner")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_a_name_is_found_by_its_number() {
        assert!(this_process().as_str().ends_with(&format!(":{}", std::process::id())));
    }
}
