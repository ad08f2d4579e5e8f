//! `interlock locks`: take, keep and give back locks; see who holds and who waits; take one away.

mod inventory;
mod run;

use clap::{Args, Subcommand};
use interlock_api::locks::{
    AcquireRequest, ForceReleaseRequest, LockDetail, LockEventKind, LockEventView, LockGrant,
    LockHistoryQuery, LockView, ReleaseRequest, RenewRequest, TTL_MS_MAX, TTL_MS_MIN, WAIT_MS_MAX,
};
use interlock_api::{Page, schema};
use interlock_model::lock::{Inventory, LockMode};
use interlock_model::time::millis;
use interlock_model::{LockOwner, LockRequest, LockToken, Resource};
use serde_json::json;

use super::{Session, pages};
use crate::arguments::Listing;
use crate::exit::{Exit, Result};
use crate::output::{Output, fields, or_dash, say, table};

const ACQUIRE_EXAMPLES: &str = "\
Prints the token, which renews and releases the lock; --json also shows the fence.
Ends with 1 if somebody else holds the lock, after waiting for it as long as was asked.

Examples:
  TOKEN=$(interlock locks acquire deploy --ttl-ms 60000 --wait-ms 10000)
  interlock locks acquire deploy --request-id build-17   # safe to repeat";

#[derive(Debug, Subcommand)]
pub(crate) enum Locks {
    /// The held locks, newest first
    List(Listing),
    /// Who holds a lock, and who waits for it
    Show { resource: Resource },
    /// What happened to a lock, newest first
    History {
        resource: Resource,
        #[command(flatten)]
        listing: Listing,
    },
    /// Take a lock, and print its token
    #[command(after_help = ACQUIRE_EXAMPLES)]
    Acquire(Acquire),
    /// Keep a lock for longer
    Renew(Renew),
    /// Give a lock back; again is fine
    Release {
        resource: Resource,
        /// As `acquire` printed it
        #[arg(long)]
        token: LockToken,
    },
    /// Take a lock away from its holder, and write down why
    #[command(
        after_help = "Example: interlock locks force-release deploy --expect-token t-… --reason 'the machine is gone'"
    )]
    ForceRelease(ForceRelease),
    /// Run a command while holding a lock
    #[command(after_help = run::EXAMPLES)]
    Run(run::Run),
    /// Every lock that there is, with its default numbers; needs no server
    Inventory {
        /// As a table in Markdown, as the documentation has it
        #[arg(long, conflicts_with = "json")]
        markdown: bool,
    },
}

/// Which lock, for whom and for how long.
#[derive(Debug, Args)]
pub(crate) struct Wanted {
    resource: Resource,
    /// Who takes it, for people to read [default: this machine and process]
    #[arg(long)]
    owner: Option<LockOwner>,
    /// exclusive or shared
    #[arg(long, default_value = "exclusive", value_parser = mode)]
    mode: LockMode,
    /// How long it is held without another word
    #[arg(long, value_name = "MS", default_value_t = ttl_default(), value_parser = ttl())]
    ttl_ms: u64,
    /// How long to stand in line for it
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=WAIT_MS_MAX))]
    wait_ms: u64,
    /// The name of this request: asked again under it, the answer is the same
    #[arg(long, value_name = "ID")]
    request_id: Option<LockRequest>,
}

impl Wanted {
    fn owner(&self) -> LockOwner {
        self.owner.clone().unwrap_or_else(this_process)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Acquire {
    #[command(flatten)]
    wanted: Wanted,
    /// Of a hold that is yours: gives the same one again, for longer
    #[arg(long)]
    token: Option<LockToken>,
}

#[derive(Debug, Args)]
pub(crate) struct Renew {
    resource: Resource,
    /// As `acquire` printed it
    #[arg(long)]
    token: LockToken,
    /// How long it is held from now
    #[arg(long, value_name = "MS", default_value_t = ttl_default(), value_parser = ttl())]
    ttl_ms: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ForceRelease {
    resource: Resource,
    /// Of the hold that is meant, as `show` prints it; if it is another by now, nothing happens
    #[arg(long, value_name = "TOKEN")]
    expect_token: LockToken,
    /// For whoever reads the history
    #[arg(long)]
    reason: String,
}

pub(super) async fn run(
    locks: Locks,
    output: Output,
    session: impl FnOnce() -> Result<Session>,
) -> Result<Exit> {
    if let Locks::Inventory { markdown } = locks {
        return inventory::print(output, markdown).map(|()| Exit::Done);
    }
    talk(locks, session()?).await
}

async fn talk(locks: Locks, session: Session) -> Result<Exit> {
    let Session { client, output, .. } = &session;
    match locks {
        Locks::List(listing) => {
            let page = pages::collect(listing, async |query| client.locks(&query).await).await?;
            output.result(&page, overview)?;
        }
        Locks::Show { resource } => output.result(&client.lock(resource).await?, describe)?,
        Locks::History { resource, listing } => {
            let page = pages::collect(listing, async |query| {
                let resource = resource.clone();
                let query = LockHistoryQuery { resource, limit: query.limit, cursor: query.cursor };
                client.lock_history(&query).await
            });
            output.result(&page.await?, events)?;
        }
        Locks::Acquire(acquire) => told(*output, &client.acquire_lock(&acquire.request()).await?)?,
        Locks::Renew(Renew { resource, token, ttl_ms }) => {
            told(*output, &client.renew_lock(&RenewRequest { resource, token, ttl_ms }).await?)?;
        }
        Locks::Release { resource, token } => {
            client.release_lock(&ReleaseRequest { resource: resource.clone(), token }).await?;
            released(*output, &resource)?;
        }
        Locks::ForceRelease(ForceRelease { resource, expect_token, reason }) => {
            let request = ForceReleaseRequest { resource: resource.clone(), expect_token, reason };
            client.force_release_lock(&request).await?;
            released(*output, &resource)?;
        }
        Locks::Run(run) => return Box::pin(run::run(run, session)).await,
        Locks::Inventory { .. } => unreachable!("it needs no session"),
    }
    Ok(Exit::Done)
}

impl Acquire {
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

/// The token goes where a script takes it from; the rest is for people.
fn told(output: Output, grant: &LockGrant) -> Result<()> {
    if !output.is_json() {
        let LockGrant { resource, owner, fence, expires_at, .. } = grant;
        say(&format!("{resource} is held by {owner} until {expires_at}, fence {fence}"));
    }
    output.result(grant, |grant| grant.token.to_string())
}

fn released(output: Output, resource: &Resource) -> Result<()> {
    output.done(&json!({"resource": resource, "released": true}), &format!("{resource} is released"))
}

fn overview(page: &Page<LockView>) -> String {
    let row = |lock: &LockView| {
        [
            lock.resource.to_string(),
            schema::name(&lock.mode),
            lock.owner.to_string(),
            lock.holders.len().to_string(),
            lock.waiting.to_string(),
            lock.fence.to_string(),
            lock.expires_at.to_string(),
        ]
    };
    let titles = ["RESOURCE", "MODE", "OWNER", "HOLDERS", "WAITING", "FENCE", "EXPIRES"];
    table(titles, page.items.iter().map(row))
}

fn describe(lock: &LockDetail) -> String {
    let view = &lock.view;
    let facts = fields(&[
        ("resource", Some(view.resource.to_string())),
        ("mode", Some(schema::name(&view.mode))),
        ("waiting", Some(view.waiting.to_string())),
    ]);
    let holders = view.holders.iter().map(|holder| {
        [
            holder.owner.to_string(),
            holder.token.to_string(),
            holder.fence.to_string(),
            holder.acquired_at.to_string(),
            holder.expires_at.to_string(),
        ]
    });
    let holders = table(["OWNER", "TOKEN", "FENCE", "ACQUIRED", "EXPIRES"], holders);
    if lock.line.is_empty() {
        return format!("{facts}\n\n{holders}");
    }
    let line = lock.line.iter().map(|waiter| {
        let waited = format!("{} ms", waiter.waiting_ms);
        [waiter.position.to_string(), waiter.owner.to_string(), schema::name(&waiter.mode), waited]
    });
    format!("{facts}\n\n{holders}\n\n{}", table(["PLACE", "OWNER", "MODE", "WAITING"], line))
}

fn events(page: &Page<LockEventView>) -> String {
    let row = |event: &LockEventView| {
        [
            event.time.to_string(),
            match event.event {
                LockEventKind::Granted => "granted".to_owned(),
                LockEventKind::Ended => "ended".to_owned(),
            },
            schema::name(&event.cause),
            event.owner.to_string(),
            event.fence.to_string(),
            event.token.to_string(),
            or_dash(event.by.as_ref()),
            or_dash(event.reason.as_ref()),
        ]
    };
    let titles = ["TIME", "EVENT", "CAUSE", "OWNER", "FENCE", "TOKEN", "BY", "REASON"];
    table(titles, page.items.iter().map(row))
}

fn mode(text: &str) -> std::result::Result<LockMode, String> {
    let modes = [LockMode::Exclusive, LockMode::Shared];
    let found = modes.into_iter().find(|mode| schema::name(mode) == text);
    found.ok_or_else(|| "it must be exclusive or shared".to_owned())
}

fn ttl_default() -> u64 {
    millis(Inventory::user().ttl)
}

fn ttl() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(TTL_MS_MIN..=TTL_MS_MAX)
}

/// Words by which people find the process that holds a lock.
fn this_process() -> LockOwner {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().chars().filter(|letter| !letter.is_control()).take(60).collect();
    let host = if host.is_empty() { "interlock" } else { &host };
    format!("{host}:{}", std::process::id()).parse().expect("a name and a number make an owner")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_a_name_is_found_by_its_number() {
        assert!(this_process().as_str().ends_with(&format!(":{}", std::process::id())));
    }

    #[test]
    fn a_mode_is_one_of_two() {
        assert_eq!(mode("shared"), Ok(LockMode::Shared));
        assert!(mode("both").is_err());
    }
}
