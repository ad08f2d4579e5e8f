//! The declared invariants, from the code.

use clap::Args;
use interlock_model::doctor::{Invariant, Realm};
use serde_json::{Value, json};

use crate::exit::Result;
use crate::output::{self, Column, Output, fields, reference};

#[derive(Debug, Args)]
pub(super) struct DeclaredFlags {
    /// List every invariant and how it is repaired; needs no server
    #[arg(long)]
    list: bool,
    /// Explain one invariant; needs no server
    #[arg(long, value_name = "NAME", conflicts_with = "list")]
    explain: Option<Invariant>,
    /// Print the list as a Markdown table, as in the documentation
    #[arg(long, requires = "list", conflicts_with = "json")]
    markdown: bool,
}

impl DeclaredFlags {
    /// None without --list and --explain.
    pub(super) fn print(&self, output: Output) -> Option<Result<()>> {
        match self.explain {
            _ if self.list => Some(list(output, self.markdown)),
            Some(invariant) => Some(explain(output, invariant)),
            None => None,
        }
    }
}

fn realm(invariant: Invariant) -> &'static str {
    match invariant.realm() {
        Realm::Tenant => "tenant",
        Realm::Installation => "installation",
    }
}

fn document(invariant: Invariant) -> Value {
    json!({
        "invariant": invariant.name(),
        "realm": realm(invariant),
        "rule": invariant.rule(),
        "plan": invariant.plan(),
    })
}

const COLUMNS: [Column<Invariant>; 4] = [
    ("INVARIANT", |invariant| invariant.name().to_owned()),
    ("OF", |invariant| realm(*invariant).to_owned()),
    ("WHAT MUST BE TRUE", |invariant| invariant.rule().to_owned()),
    ("WHERE IT IS NOT", |invariant| invariant.plan().to_owned()),
];

fn describe(markdown: bool) -> String {
    reference(&COLUMNS, &Invariant::ALL, markdown)
}

fn list(output: Output, markdown: bool) -> Result<()> {
    if markdown {
        return output::raw(describe(true).as_bytes());
    }
    let all: Vec<_> = Invariant::ALL.iter().copied().map(document).collect();
    output.result(&json!({"items": all, "next_cursor": null}), |_| describe(false))
}

fn explain(output: Output, invariant: Invariant) -> Result<()> {
    let (name, realm) = (invariant.name(), realm(invariant));
    let pairs = [("invariant", name), ("of", realm), ("rule", invariant.rule()), ("plan", invariant.plan())];
    output
        .result(&document(invariant), |_| fields(&pairs.map(|(name, value)| (name, Some(value.to_owned())))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_invariants_as_the_code_has_them() {
        assert_eq!(
            output::tests::documented("operating/doctor.md", "invariants"),
            describe(true),
            "put what `interlock doctor --list --markdown` prints between the marks in docs/operating/doctor.md"
        );
    }
}
