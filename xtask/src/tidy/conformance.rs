//! Every rule of the conformance suite is in the macro that backends run.

use std::collections::BTreeSet;

use super::sources::Source;

const SUITE: &str = "crates/backend/src/conformance";
/// The comparison with the reference: backends call it with a store of their own.
const COMPARISON: &str = "versus_memory";

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let suite: Vec<_> = super::rust(sources).filter(|source| source.is_in(SUITE)).collect();
    let lines = suite.iter().flat_map(|source| source.text.lines());
    let listed: BTreeSet<_> = lines.filter_map(|line| line.trim().strip_suffix(',')).collect();
    let mut findings = Vec::new();
    for source in suite.iter().filter(|source| !source.path[SUITE.len()..].contains(COMPARISON)) {
        for rule in rules(&source.text).filter(|rule| !listed.contains(rule)) {
            findings.push(format!("{}: no backend runs the rule `{rule}`", source.path));
        }
    }
    findings
}

/// The names of public async functions, but for those that a macro names.
fn rules(text: &str) -> impl Iterator<Item = &str> {
    let functions = text.lines().filter_map(|line| line.strip_prefix("pub async fn "));
    functions.filter_map(|rest| rest.split(['(', '<']).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(file: &str, rule: &str) -> Vec<String> {
        let list = Source::new("crates/backend/src/conformance/mod.rs", "runs::{\n  a_run_ends,\n}");
        let text = format!("pub async fn {rule}(subject: &dyn Subject) {{\n");
        check(&[list, Source::new(&format!("{SUITE}/{file}"), &text)])
    }

    #[test]
    fn a_rule_that_no_backend_runs_is_found_in_subfolders_too() {
        assert!(suite("runs.rs", "a_run_ends").is_empty());
        assert_eq!(suite("runs.rs", "a_run_begins").len(), 1);
        assert_eq!(suite("inspection/local.rs", "a_run_begins").len(), 1);
        assert!(suite("versus_memory/runs.rs", "a_run_begins").is_empty());
    }
}
