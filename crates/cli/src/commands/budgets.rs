//! `interlock budgets`: reserve from budgets, settle what was spent, and see what is left.

use clap::{Args, Subcommand};
use interlock_api::Time;
use interlock_api::budgets::{
    AdjustRequest, BudgetDetail, BudgetDocument, BudgetEventView, BudgetGroupView, BudgetQuery, BudgetUsage,
    BudgetView, Decimal, EndedPermitView, PermitView, ReleasePermitRequest, RenewPermitRequest,
    ReserveRequest, SettleRequest, SignedDecimal, TTL_MS_MAX, TTL_MS_MIN,
};
use interlock_api::schema;
use interlock_model::budget::{Amount, Delta, OnExhausted, Period};
use interlock_model::{BudgetName, BudgetRequest, PermitId, RunId, Timestamp};
use serde_json::json;

use super::Session;
use crate::arguments::{ListFlags, one_of};
use crate::exit::Result;
use crate::output::{Column, Output, fields, or_dash, say, table};

const TTL_MS_DEFAULT: u64 = 60_000;

const RESERVE_EXAMPLES: &str = "\
Prints the permit, which settles what was spent; --json also shows the fence.
Exits with 1 if too little is left.

Examples:
  PERMIT=$(interlock budgets reserve llm --amount 0.05 --min-amount 0.01)
  interlock budgets settle llm --permit \"$PERMIT\" --amount 0.031";

#[derive(Debug, Subcommand)]
pub(crate) enum BudgetsCommand {
    /// List budgets with what was spent
    List(ListFlags),
    /// Show a budget with its busiest keys and what happened to it
    Get {
        /// Name of the budget
        name: BudgetName,
        /// Show only this key
        #[arg(long)]
        key: Option<String>,
        /// Show only this run
        #[arg(long, value_name = "RUN")]
        run: Option<RunId>,
    },
    /// Create a budget, or replace its document; what was spent stays
    #[command(
        after_help = "Example: interlock budgets set llm --unit usd --amount 20 --per day --warn-at 50,80"
    )]
    Set(Box<SetFlags>),
    /// Delete a budget with its ledger and permits
    Delete {
        /// Name of the budget
        name: BudgetName,
    },
    /// Reserve a part of a budget and print the permit
    #[command(after_help = RESERVE_EXAMPLES)]
    Reserve(ReserveFlags),
    /// Extend a permit
    Renew {
        #[command(flatten)]
        permit: PermitFlags,
        /// Permit duration from now
        #[arg(long, value_name = "MS", default_value_t = TTL_MS_DEFAULT, value_parser = ttl())]
        ttl_ms: u64,
    },
    /// Settle a permit with what was spent; settling it again counts once
    Settle {
        #[command(flatten)]
        permit: PermitFlags,
        /// What was spent
        #[arg(long)]
        amount: Amount,
    },
    /// Release a permit of which nothing was spent
    Release(PermitFlags),
    /// Add to what may be spent, or take from it, and record why
    #[command(
        after_help = "Example: interlock budgets adjust llm --delta 5 --reason 'a wrong price was settled'"
    )]
    Adjust(AdjustFlags),
}

#[derive(Debug, Args)]
pub(crate) struct SetFlags {
    /// Name of the budget
    name: BudgetName,
    /// What the amounts count, such as usd, tokens or calls
    #[arg(long)]
    unit: String,
    /// How much may be spent
    #[arg(long)]
    amount: Amount,
    /// How long the amount lasts
    #[arg(long, value_parser = one_of(Period::ALL, Period::name))]
    per: Period,
    /// Time zone of the hour, day or month [default: UTC]
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// Expression over input, workflow and labels whose values have an amount each
    #[arg(long, value_name = "EXPRESSION")]
    key: Option<String>,
    /// Percentages of the amount at which to warn, separated by commas
    #[arg(long, value_name = "PERCENT", value_delimiter = ',')]
    warn_at: Vec<u8>,
    /// What a step does that finds the budget exhausted
    #[arg(long, default_value = "deny", value_parser = one_of(OnExhausted::ALL, OnExhausted::name))]
    on_exhausted: OnExhausted,
    /// Replace only this revision
    #[arg(long, value_name = "REVISION")]
    if_match: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct ReserveFlags {
    /// Name of the budget
    name: BudgetName,
    /// How much to reserve
    #[arg(long)]
    amount: Amount,
    /// Accept less, if at least this much is left
    #[arg(long, value_name = "AMOUNT")]
    min_amount: Option<Amount>,
    /// Permit duration unless renewed
    #[arg(long, value_name = "MS", default_value_t = TTL_MS_DEFAULT, value_parser = ttl())]
    ttl_ms: u64,
    /// Id of this request: repeated with the same id, it gets the same permit [default: a new one]
    #[arg(long, value_name = "ID")]
    request_id: Option<BudgetRequest>,
    /// Run whose amount it is, of a budget per run
    #[arg(long, value_name = "RUN")]
    run: Option<RunId>,
    /// Key whose amount it is, of a budget with a key
    #[arg(long)]
    key: Option<String>,
}

/// A permit of a budget.
#[derive(Debug, Args)]
pub(crate) struct PermitFlags {
    /// Name of the budget
    name: BudgetName,
    /// Permit that `reserve` printed
    #[arg(long)]
    permit: PermitId,
}

#[derive(Debug, Args)]
pub(crate) struct AdjustFlags {
    /// Name of the budget
    name: BudgetName,
    /// How much to add; with a minus sign, how much to take
    #[arg(long, allow_hyphen_values = true)]
    delta: Delta,
    /// Reason, recorded with the budget
    #[arg(long)]
    reason: String,
    /// Make it a temporary increase, until this RFC 3339 time
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// Key whose amount it is
    #[arg(long)]
    key: Option<String>,
    /// Run whose amount it is
    #[arg(long, value_name = "RUN")]
    run: Option<RunId>,
    /// Id of this request: repeated with the same id, it changes nothing more
    #[arg(long, value_name = "ID")]
    request_id: Option<BudgetRequest>,
}

pub(super) async fn run(command: BudgetsCommand, session: &Session) -> Result<()> {
    let Session { client, output, .. } = session;
    match command {
        BudgetsCommand::List(listing) => {
            session.list(listing, &COLUMNS, async |page| client.budgets(&page).await).await
        }
        BudgetsCommand::Get { name, key, run } => {
            let query = BudgetQuery { key, run_id: run };
            output.result(&client.budget(name.as_str(), &query).await?, describe)
        }
        BudgetsCommand::Set(flags) => {
            let (name, revision) = (flags.name.clone(), flags.if_match);
            let saved = client.put_budget(name.as_str(), &flags.document(), revision).await?;
            output.result(&saved, facts)
        }
        BudgetsCommand::Delete { name } => {
            client.delete_budget(name.as_str()).await?;
            output.done(&json!({"name": name, "deleted": true}), &format!("{name} deleted"))
        }
        BudgetsCommand::Reserve(flags) => {
            let name = flags.name.clone();
            show_permit(*output, &name, &client.reserve_budget(name.as_str(), &flags.request()).await?)
        }
        BudgetsCommand::Renew { permit: PermitFlags { name, permit }, ttl_ms } => {
            let request = RenewPermitRequest { permit, ttl_ms };
            show_permit(*output, &name, &client.renew_permit(name.as_str(), &request).await?)
        }
        BudgetsCommand::Settle { permit: PermitFlags { name, permit }, amount } => {
            let request = SettleRequest { permit, amount: Decimal(amount) };
            output.result(&client.settle_permit(name.as_str(), &request).await?, describe_end)
        }
        BudgetsCommand::Release(PermitFlags { name, permit }) => {
            let request = ReleasePermitRequest { permit };
            output.result(&client.release_permit(name.as_str(), &request).await?, describe_end)
        }
        BudgetsCommand::Adjust(flags) => {
            let name = flags.name.clone();
            let usage = client.adjust_budget(name.as_str(), &flags.request()).await?;
            output.result(&usage, |usage| fields(&usage_fields(usage)))
        }
    }
}

impl SetFlags {
    fn document(self) -> BudgetDocument {
        BudgetDocument {
            unit: self.unit,
            amount: Decimal(self.amount),
            per: self.per,
            timezone: self.timezone,
            key: self.key,
            warn_at: self.warn_at,
            on_exhausted: self.on_exhausted,
        }
    }
}

impl ReserveFlags {
    fn request(self) -> ReserveRequest {
        ReserveRequest {
            amount: Decimal(self.amount),
            min_amount: self.min_amount.map(Decimal),
            ttl_ms: self.ttl_ms,
            request_id: self.request_id.unwrap_or_else(new_request),
            run_id: self.run,
            key: self.key,
        }
    }
}

impl AdjustFlags {
    fn request(self) -> AdjustRequest {
        AdjustRequest {
            delta: SignedDecimal(self.delta),
            reason: self.reason,
            until: self.until.map(Time),
            key: self.key,
            run_id: self.run,
            request_id: self.request_id,
        }
    }
}

fn new_request() -> BudgetRequest {
    let number: u128 = rand::random();
    format!("r-{number:032x}").parse().expect("hexadecimal digits make a request id")
}

fn ttl() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(TTL_MS_MIN..=TTL_MS_MAX)
}

/// The permit goes to standard output, for scripts; the rest to standard error, for people.
fn show_permit(output: Output, name: &BudgetName, permit: &PermitView) -> Result<()> {
    if !output.is_json() {
        let PermitView { granted, remaining, expires_at, fence, .. } = permit;
        let until = expires_at.map_or_else(|| "its job ends".to_owned(), |at| at.to_string());
        say(&format!(
            "{granted} of {name} is reserved until {until} with fence {fence}; {remaining} is left"
        ));
    }
    output.result(permit, |permit| permit.permit.to_string())
}

const COLUMNS: [Column<BudgetView>; 9] = [
    ("NAME", |budget| budget.name.to_string()),
    ("AMOUNT", |budget| format!("{} {}", budget.document.amount, budget.document.unit)),
    ("PER", |budget| budget.document.per.name().to_owned()),
    ("KEY", |budget| or_dash(budget.document.key.as_ref())),
    ("SPENT", |budget| budget.usage.spent.to_string()),
    ("RESERVED", |budget| budget.usage.reserved.to_string()),
    ("UNSETTLED", |budget| budget.usage.unsettled.to_string()),
    ("REMAINING", |budget| or_dash(budget.usage.remaining.as_ref())),
    ("RESETS", |budget| or_dash(budget.resets_at.as_ref())),
];

const GROUPS: [Column<BudgetGroupView>; 7] = [
    ("KEY", |group| or_dash(group.key.as_ref())),
    ("RUN", |group| or_dash(group.run_id.as_ref())),
    ("SPENT", |group| group.usage.spent.to_string()),
    ("RESERVED", |group| group.usage.reserved.to_string()),
    ("UNSETTLED", |group| group.usage.unsettled.to_string()),
    ("OVERDRAFT", |group| group.usage.overdraft.to_string()),
    ("REMAINING", |group| or_dash(group.usage.remaining.as_ref())),
];

const EVENTS: [Column<BudgetEventView>; 8] = [
    ("TIME", |event| event.time.to_string()),
    ("EVENT", |event| schema::name(&event.event)),
    ("KEY", |event| or_dash(event.key.as_ref())),
    ("BY", |event| or_dash(event.by.as_ref())),
    ("DELTA", |event| or_dash(event.delta.as_ref())),
    ("UNTIL", |event| or_dash(event.until.as_ref())),
    ("PERCENT", |event| or_dash(event.percent.as_ref())),
    ("REASON", |event| or_dash(event.reason.as_ref())),
];

fn usage_fields(usage: &BudgetUsage) -> [(&'static str, Option<String>); 8] {
    [
        ("limit", usage.limit.map(|limit| limit.to_string())),
        ("spent", Some(usage.spent.to_string())),
        ("reserved", Some(usage.reserved.to_string())),
        ("unsettled", Some(usage.unsettled.to_string())),
        ("overdraft", Some(usage.overdraft.to_string())),
        ("adjusted", Some(usage.adjusted.to_string())),
        ("open permits", Some(usage.open_permits.to_string())),
        ("remaining", usage.remaining.map(|remaining| remaining.to_string())),
    ]
}

fn facts(view: &BudgetView) -> String {
    let document = &view.document;
    let warn_at: Vec<_> = document.warn_at.iter().map(|percent| format!("{percent} %")).collect();
    let mut pairs = vec![
        ("name", Some(view.name.to_string())),
        ("amount", Some(format!("{} {}", document.amount, document.unit))),
        ("per", Some(document.per.name().to_owned())),
        ("timezone", document.timezone.clone()),
        ("key", document.key.clone()),
        ("warn at", Some(warn_at.join(", ")).filter(|marks| !marks.is_empty())),
        ("on exhausted", Some(document.on_exhausted.name().to_owned())),
        ("revision", Some(view.revision.to_string())),
        ("resets at", view.resets_at.map(|at| at.to_string())),
    ];
    pairs.extend(usage_fields(&view.usage));
    fields(&pairs)
}

fn describe(budget: &BudgetDetail) -> String {
    let mut parts = vec![facts(&budget.view)];
    let has_keys = budget.groups.iter().any(|group| group.key.is_some() || group.run_id.is_some());
    if has_keys {
        parts.push(table(&GROUPS, &budget.groups));
    }
    if !budget.events.is_empty() {
        parts.push(table(&EVENTS, &budget.events));
    }
    parts.join("\n\n")
}

fn describe_end(permit: &EndedPermitView) -> String {
    fields(&[
        ("permit", Some(permit.permit.to_string())),
        ("state", Some(permit.state.name().to_owned())),
        ("granted", Some(permit.granted.to_string())),
        ("settled", Some(permit.settled.to_string())),
        ("overdraft", Some(permit.overdraft.to_string())),
        ("remaining", Some(permit.remaining.to_string())),
    ])
}
