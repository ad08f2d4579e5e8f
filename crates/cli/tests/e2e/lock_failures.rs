//! The page about failures of locks and the promises of the README name tests that exist.

use std::collections::BTreeSet;
use std::path::Path;

use super::walk_through::{read, root};

/// The names of all functions in the Rust files under `folder`.
fn functions(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            functions(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(path).unwrap();
            let after_fn = text.split("fn ").skip(1);
            names.extend(after_fn.filter_map(|rest| rest.split('(').next()).map(str::to_owned));
        }
    }
}

#[test]
fn every_known_failure_of_lock_services_has_a_test_or_a_reason() {
    let page = read("docs/concepts/lock-failures.md");
    let mut known = BTreeSet::new();
    functions(&root().join("crates"), &mut known);
    for number in 1..=24 {
        let start = format!("| L{number} |");
        let row = page.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("no {start}"));
        let named: Vec<&str> =
            row.split('`').skip(1).step_by(2).filter(|name| name.starts_with('l')).collect();
        let prefix = format!("l{number}_");
        for name in &named {
            assert!(name.starts_with(&prefix) && known.contains(*name), "L{number} names {name}");
        }
        let is_impossible = row.contains("cannot happen: ") && row.ends_with("| – |");
        assert!(is_impossible || !named.is_empty(), "L{number} has neither a test nor a reason");
    }
}

#[test]
fn every_promise_of_the_readme_names_tests_that_exist() {
    let readme = read("README.md");
    let mut known = BTreeSet::new();
    functions(&root().join("crates"), &mut known);
    let named: Vec<&str> =
        readme.split('`').skip(1).step_by(2).filter_map(|code| code.strip_prefix("::")).collect();
    assert!(named.len() >= 10, "{named:?}");
    for name in named {
        assert!(known.contains(name), "the README names {name}");
    }
}
