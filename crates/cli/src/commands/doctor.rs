//! `interlock doctor`: check invariants and repair violations.

mod declared;

use clap::Args;
use interlock_api::client::Client;
use interlock_api::doctor::{
    DoctorQuery, DoctorView, FindingView, RepairRequest, RepairView, RepairedView, UnseenView,
};
use interlock_model::doctor::Invariant;

use super::Session;
use super::meter::Meter;
use crate::exit::{Exit, Result};
use crate::output::{Column, Output, or_dash, table};

/// How long one request checks, about.
const PAGE_MS: u64 = 1_500;

/// Findings that are shown. Further ones are only counted.
const FINDINGS_MAX: usize = 1_000;

pub(crate) const EXAMPLES: &str = "\
Checks the data of every tenant that the key covers, or of the one that --tenant names, and the
installation itself, and reports what it could not check. --repair fixes each finding in one atomic
step that checks it once more, and then checks everything again.

Exit codes: 0 no findings; 1 findings (with --repair: some are left); 3 no findings, but not
everything could be checked.

Examples:
  interlock doctor
  interlock doctor --repair
  interlock doctor --only slot_without_run,run_without_slot --tenant acme
  interlock doctor --explain lock_debt       # needs no server";

#[derive(Debug, Args)]
pub(crate) struct DoctorFlags {
    /// Repair the findings that can be repaired, and check again
    #[arg(long, conflicts_with_all = ["list", "explain"])]
    repair: bool,
    /// Check only these invariants; --list shows the names
    #[arg(long, value_name = "NAME", value_delimiter = ',', num_args = 1..)]
    only: Vec<Invariant>,
    /// Check every tenant, even if `INTERLOCK_TENANT_ID` names one
    #[arg(long)]
    all_tenants: bool,
    #[command(flatten)]
    declared: declared::DeclaredFlags,
}

pub(super) async fn run(
    flags: DoctorFlags,
    output: Output,
    session: impl FnOnce() -> Result<Session>,
) -> Result<Exit> {
    if let Some(printed) = flags.declared.print(output) {
        return printed.map(|()| Exit::Done);
    }
    let Session { client, tenant, .. } = session()?;
    let names: Vec<_> = flags.only.iter().map(|invariant| invariant.name()).collect();
    let query = DoctorQuery {
        tenant: tenant.filter(|_| !flags.all_tenants),
        only: Some(names.join(",")).filter(|names| !names.is_empty()),
        ..DoctorQuery::default()
    };
    let meter = Meter::spinner();
    if flags.repair {
        meter.tell("checking, repairing, and checking again");
        let view = client.repair(&query, &RepairRequest::default()).await?;
        drop(meter);
        output.result(&view, describe_repair)?;
        return Ok(exit_of(&view.after));
    }
    let view = examine(&client, query, &meter).await?;
    drop(meter);
    output.result(&view, describe)?;
    Ok(exit_of(&view))
}

/// Checks page by page, so that no request takes long, and shows how far it is.
async fn examine(client: &Client, query: DoctorQuery, meter: &Meter) -> Result<DoctorView> {
    let mut query = DoctorQuery { page_ms: Some(PAGE_MS), ..query };
    let mut all = DoctorView::default();
    meter.tell("checking");
    loop {
        let page = client.doctor(&query).await?;
        query.cursor.clone_from(&page.next_cursor);
        add(&mut all, page);
        if query.cursor.is_none() {
            return Ok(all);
        }
        meter.tell(&format!("checking: {} tenants so far", tenants(&all)));
    }
}

fn add(all: &mut DoctorView, page: DoctorView) {
    let room = FINDINGS_MAX.saturating_sub(all.findings.len());
    all.findings_untold += page.findings_untold + page.findings.len().saturating_sub(room) as u64;
    all.findings.extend(page.findings.into_iter().take(room));
    all.unseen.extend(page.unseen);
    for looked in page.looked_at {
        match all.looked_at.iter_mut().find(|known| known.invariant == looked.invariant) {
            Some(known) => known.tenants += looked.tenants,
            None => all.looked_at.push(looked),
        }
    }
}

fn tenants(view: &DoctorView) -> u64 {
    view.looked_at.iter().map(|looked| looked.tenants).max().unwrap_or(0)
}

fn exit_of(view: &DoctorView) -> Exit {
    if !view.findings.is_empty() {
        Exit::Refused
    } else if view.unseen.is_empty() {
        Exit::Done
    } else {
        Exit::Unreachable
    }
}

fn describe(view: &DoctorView) -> String {
    let mut parts = Vec::new();
    if !view.findings.is_empty() {
        parts.push(table(&FINDING, &view.findings));
    }
    if !view.unseen.is_empty() {
        parts.push(table(&UNSEEN, &view.unseen));
    }
    parts.push(summary(view));
    parts.join("\n\n")
}

const FINDING: [Column<FindingView>; 5] = [
    ("INVARIANT", |found| found.invariant.clone()),
    ("TENANT", |found| or_dash(found.tenant.as_ref())),
    ("SUBJECT", |found| found.subject.clone()),
    ("FINDING", |found| found.detail.clone()),
    (
        "REPAIR",
        |found| if found.repairable { found.plan.clone() } else { format!("by hand: {}", found.plan) },
    ),
];

const UNSEEN: [Column<UnseenView>; 2] =
    [("NOT CHECKED", |unseen| unseen.what.clone()), ("WHY", |unseen| unseen.why.clone())];

const REPAIRED: [Column<RepairedView>; 5] = [
    ("INVARIANT", |one| one.invariant.clone()),
    ("TENANT", |one| or_dash(one.tenant.as_ref())),
    ("SUBJECT", |one| one.subject.clone()),
    ("OUTCOME", |one| one.became.replace('_', " ")),
    ("WHY", |one| or_dash(one.reason.as_ref())),
];

fn summary(view: &DoctorView) -> String {
    let checked = format!("{} invariants checked in {} tenants", view.looked_at.len(), tenants(view));
    let unseen = match view.unseen.len() {
        0 => String::new(),
        count => format!("; {count} not checked"),
    };
    let found = match view.findings.len() as u64 + view.findings_untold {
        0 if view.unseen.is_empty() => "no violations".to_owned(),
        0 => "no violations in what could be checked".to_owned(),
        count => {
            let repairable = view.findings.iter().filter(|finding| finding.repairable).count();
            let omitted = match view.findings_untold {
                0 => String::new(),
                omitted => format!(" ({omitted} not shown)"),
            };
            format!("{count} violations{omitted}; {repairable} can be repaired: interlock doctor --repair")
        }
    };
    format!("{found} ({checked}{unseen})")
}

fn describe_repair(view: &RepairView) -> String {
    let mut parts = Vec::new();
    if !view.repaired.is_empty() {
        parts.push(table(&REPAIRED, &view.repaired));
    }
    parts.push(format!("after the repair:\n{}", describe(&view.after)));
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(repairable: bool) -> FindingView {
        FindingView {
            invariant: "slot_without_run".to_owned(),
            tenant: Some("acme".to_owned()),
            subject: "a run".to_owned(),
            detail: "its slot is taken".to_owned(),
            plan: "release the slot".to_owned(),
            repairable,
        }
    }

    #[test]
    fn the_exit_code_is_0_if_clean_1_with_findings_and_3_if_not_all_could_be_checked() {
        let mut view = DoctorView::default();
        assert_eq!(exit_of(&view).code(), 0);
        assert!(describe(&view).starts_with("no violations ("));
        view.unseen =
            vec![UnseenView { what: "the store".to_owned(), why: "Redis is unreachable".to_owned() }];
        assert_eq!(exit_of(&view).code(), 3);
        assert!(describe(&view).contains("Redis is unreachable"), "{}", describe(&view));
        assert!(!describe(&view).contains("no violations ("));
        view.findings = vec![found(true), found(false)];
        assert_eq!(exit_of(&view).code(), 1);
        let text = describe(&view);
        assert!(text.contains("2 violations; 1 can be repaired"), "{text}");
        assert!(text.contains("by hand: release"), "{text}");
    }
}
