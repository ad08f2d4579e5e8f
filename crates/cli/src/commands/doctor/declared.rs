//! The declared invariants, from the code itself.

use clap::Args;
use interlock_model::doctor::{Invariant, Realm};
use serde_json::{Value, json};

use crate::exit::Result;
use crate::output::{self, Output, fields, table};

/// What is to be told of them, if anything is.
#[derive(Debug, Args)]
pub(super) struct Declared {
    /// Every invariant with its plan; needs no server
    #[arg(long)]
    list: bool,
    /// One of them
    #[arg(long, value_name = "NAME", conflicts_with = "list")]
    explain: Option<Invariant>,
    /// The list as a table for a document
    #[arg(long, requires = "list", conflicts_with = "json")]
    markdown: bool,
}

impl Declared {
    /// Prints what was asked for. None: nothing was.
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

fn cells(invariant: Invariant) -> [String; 4] {
    [invariant.name(), realm(invariant), invariant.rule(), invariant.plan()].map(str::to_owned)
}

const TITLES: [&str; 4] = ["invariant", "of", "what must be true", "where it is not"];

fn list(output: Output, markdown: bool) -> Result<()> {
    if markdown {
        return output::raw(as_markdown().as_bytes());
    }
    let all: Vec<_> = Invariant::ALL.iter().copied().map(document).collect();
    output.result(&json!({"items": all, "next_cursor": null}), |_| {
        let titles = TITLES.map(str::to_uppercase);
        table(titles.each_ref().map(String::as_str), Invariant::ALL.iter().copied().map(cells))
    })
}

fn explain(output: Output, invariant: Invariant) -> Result<()> {
    output.result(&document(invariant), |_| {
        let [name, realm, rule, plan] = cells(invariant);
        let pairs = [("invariant", name), ("of", realm), ("rule", rule), ("plan", plan)];
        fields(&pairs.map(|(name, value)| (name, Some(value))))
    })
}

fn as_markdown() -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&TITLES.map(str::to_owned));
    text.push_str(&"|---".repeat(TITLES.len()));
    text.push_str("|\n");
    for invariant in Invariant::ALL {
        let mut cells = cells(*invariant);
        cells[0] = format!("`{}`", cells[0]);
        text.push_str(&line(&cells));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_invariants_as_the_code_has_them() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/doctor.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, rest) = page.split_once("<!-- invariants -->\n").expect("the page marks its table");
        let (written, _) = rest.split_once("<!-- end of invariants -->").expect("the page marks its end");
        assert_eq!(
            written,
            as_markdown(),
            "put what `interlock doctor --list --markdown` prints between the marks in docs/operating/doctor.md"
        );
    }
}
