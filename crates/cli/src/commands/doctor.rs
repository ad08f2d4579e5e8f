//! `interlock doctor`: what must be true and is not, and mending it.

mod declared;

use clap::Args;
use interlock_api::doctor::{
    DoctorQuery, DoctorView, FindingView, RepairRequest, RepairView, RepairedView, UnseenView,
};
use interlock_model::doctor::Invariant;

use super::Session;
use super::meter::Meter;
use crate::exit::{Exit, Result};
use crate::output::{Output, or_dash, table};

pub(crate) const EXAMPLES: &str = "\
It looks at the rows of every tenant that the key covers, or of the one that --tenant names, and at
the installation itself. What it cannot look at, it says. A repair mends each finding on its own,
in one step of the store that looks at it once more, and then looks at everything again.

Exit codes: 0 all is well; 1 something was found (with --repair: and is left); 3 nothing was found,
but not all could be seen.

Examples:
  interlock doctor
  interlock doctor --repair
  interlock doctor --only slot_without_run,run_without_slot --tenant acme
  interlock doctor --explain lock_debt       # what it means; needs no server";

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Mend what can be mended, and look again
    #[arg(long, conflicts_with_all = ["list", "explain"])]
    repair: bool,
    /// Look for these alone; --list shows the names
    #[arg(long, value_name = "NAME", value_delimiter = ',', num_args = 1..)]
    only: Vec<Invariant>,
    /// Look at every tenant, although one is named
    #[arg(long)]
    all_tenants: bool,
    #[command(flatten)]
    declared: declared::Declared,
}

pub(super) async fn run(
    doctor: Doctor,
    output: Output,
    session: impl FnOnce() -> Result<Session>,
) -> Result<Exit> {
    if let Some(printed) = doctor.declared.print(output) {
        return printed.map(|()| Exit::Done);
    }
    let Session { client, tenant, .. } = session()?;
    let names: Vec<_> = doctor.only.iter().map(|invariant| invariant.name()).collect();
    let query = DoctorQuery {
        tenant: tenant.filter(|_| !doctor.all_tenants),
        only: Some(names.join(",")).filter(|names| !names.is_empty()),
    };
    let meter = Meter::spinner();
    if doctor.repair {
        meter.tell("looking, mending, and looking again");
        let view = client.repair(&query, &RepairRequest::default()).await?;
        drop(meter);
        output.result(&view, describe_repair)?;
        return Ok(verdict(&view.after));
    }
    meter.tell("looking");
    let view = client.doctor(&query).await?;
    drop(meter);
    output.result(&view, describe)?;
    Ok(verdict(&view))
}

fn verdict(view: &DoctorView) -> Exit {
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
        parts.push(findings(view));
    }
    if !view.unseen.is_empty() {
        parts.push(unseen(view));
    }
    parts.push(summary(view));
    parts.join("\n\n")
}

fn findings(view: &DoctorView) -> String {
    let row = |found: &FindingView| {
        let plan = if found.repairable { found.plan.clone() } else { format!("by hand: {}", found.plan) };
        [
            found.invariant.clone(),
            or_dash(found.tenant.as_ref()),
            found.subject.clone(),
            found.detail.clone(),
            plan,
        ]
    };
    table(["INVARIANT", "TENANT", "SUBJECT", "WHAT", "PLAN"], view.findings.iter().map(row))
}

fn unseen(view: &DoctorView) -> String {
    let row = |unseen: &UnseenView| [unseen.what.clone(), unseen.why.clone()];
    table(["NOT SEEN", "WHY"], view.unseen.iter().map(row))
}

fn summary(view: &DoctorView) -> String {
    let tenants = view.looked_at.iter().map(|looked| looked.tenants).max().unwrap_or(0);
    let looked = format!("{} invariants were looked for, in {tenants} tenants", view.looked_at.len());
    let unseen = match view.unseen.len() {
        0 => String::new(),
        count => format!("; {count} things could not be seen"),
    };
    let found = match view.findings.len() as u64 + view.findings_untold {
        0 if view.unseen.is_empty() => "all is well".to_owned(),
        0 => "nothing was found".to_owned(),
        count => {
            let repairable = view.findings.iter().filter(|finding| finding.repairable).count();
            let untold = match view.findings_untold {
                0 => String::new(),
                untold => format!(", {untold} of them not shown"),
            };
            format!("{count} found{untold}; {repairable} can be mended: interlock doctor --repair")
        }
    };
    format!("{found} ({looked}{unseen})")
}

fn describe_repair(view: &RepairView) -> String {
    let mut parts = Vec::new();
    if !view.repaired.is_empty() {
        let row = |one: &RepairedView| {
            [
                one.invariant.clone(),
                or_dash(one.tenant.as_ref()),
                one.subject.clone(),
                one.became.replace('_', " "),
                or_dash(one.reason.as_ref()),
            ]
        };
        let titles = ["INVARIANT", "TENANT", "SUBJECT", "BECAME", "WHY"];
        parts.push(table(titles, view.repaired.iter().map(row)));
    }
    parts.push(format!("the second look:\n{}", describe(&view.after)));
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
            detail: "a slot is taken".to_owned(),
            plan: "give the slot back".to_owned(),
            repairable,
        }
    }

    #[test]
    fn clean_is_nought_findings_are_one_and_not_having_seen_all_is_three() {
        let mut view = DoctorView::default();
        assert_eq!(verdict(&view).code(), 0);
        assert!(describe(&view).starts_with("all is well"));
        view.unseen = vec![UnseenView { what: "the store".to_owned(), why: "it is away".to_owned() }];
        assert_eq!(verdict(&view).code(), 3);
        assert!(describe(&view).contains("it is away"), "{}", describe(&view));
        assert!(!describe(&view).contains("all is well"));
        view.findings = vec![found(true), found(false)];
        assert_eq!(verdict(&view).code(), 1);
        let text = describe(&view);
        assert!(text.contains("2 found; 1 can be mended"), "{text}");
        assert!(text.contains("by hand: give"), "{text}");
    }
}
