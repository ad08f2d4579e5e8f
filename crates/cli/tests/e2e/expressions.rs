//! The metrics in a Prometheus expression.

use std::collections::BTreeSet;

/// Keywords that can stand where a metric can.
const WORDS: [&str; 12] = [
    "and",
    "bool",
    "by",
    "group_left",
    "group_right",
    "ignoring",
    "inf",
    "nan",
    "offset",
    "on",
    "or",
    "unless",
];

/// Keywords before a list of labels.
const BEFORE_LABELS: [&str; 6] = ["by", "group_left", "group_right", "ignoring", "on", "without"];

/// The names in an expression that are neither functions, nor labels, nor keywords.
pub(crate) fn metrics_in(expression: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = without_brackets(expression);
    while let Some(begin) = rest.find(|character: char| character.is_ascii_alphabetic() || character == '_') {
        // A number with a unit is one word, not a number and a name.
        let is_duration = rest[..begin].ends_with(|character: char| character.is_ascii_digit());
        rest.drain(..begin);
        let end = rest.find(|character: char| !is_name(character)).unwrap_or(rest.len());
        let name: String = rest.drain(..end).collect();
        let is_function =
            ["(", "by ", "by(", "without"].iter().any(|next| rest.trim_start().starts_with(next));
        if BEFORE_LABELS.contains(&name.as_str()) {
            let after = rest.find(')').map_or(rest.len(), |end| end + 1);
            rest.drain(..after);
        } else if !is_duration && !is_function && !WORDS.contains(&name.as_str()) {
            found.insert(name);
        }
    }
    found
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | ':')
}

/// The expression without selectors, ranges and quoted text.
fn without_brackets(expression: &str) -> String {
    let mut depth = 0;
    let mut quote = None;
    let mut kept = String::new();
    for character in expression.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') => depth -= 1,
            (None, _) if depth == 0 => kept.push(character),
            (Some(_) | None, _) => {}
        }
    }
    kept
}

/// The names of all samples in a scrape.
pub(crate) fn served(scraped: &str) -> BTreeSet<&str> {
    let names = scraped.lines().filter_map(|line| line.split(['{', ' ']).next());
    names.filter(|name| *name != "#").collect()
}

/// Asserts that the expression has metrics and that each is served.
pub(crate) fn assert_served(expression: &str, served: &BTreeSet<&str>) {
    let named = metrics_in(expression);
    assert!(!named.is_empty(), "{expression}");
    for name in named {
        assert!(served.contains(name.as_str()), "{name} of {expression}");
    }
}

#[test]
fn metrics_are_found_among_functions_labels_and_keywords() {
    let expression = r#"max by (job) (sum by (job, instance) (a{b="c(d)"})) - e_total offset 1h
        / on (x) group_left (y) (f_max > 0) unless rate(g[5m] offset 10m) >= 0.8 or vector(1)"#;
    let found = metrics_in(expression);
    assert_eq!(found, ["a", "e_total", "f_max", "g"].map(str::to_owned).into());
}
