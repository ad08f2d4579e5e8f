//! Rust files are short, finished, and do not sleep to wait.

use super::sources::Source;

const LINES_MAX: usize = 400;
const COLUMNS_MAX: usize = 125;
/// Text that a line must not contain, and what to do instead.
const FORBIDDEN: [(&str, &str); 8] = [
    ("TODO", "finish it, or write it down where it is read"),
    ("FIXME", "finish it, or write it down where it is read"),
    ("XXX", "finish it, or write it down where it is read"),
    ("HACK", "finish it, or write it down where it is read"),
    ("thread::sleep(", "wait on a condition with a limit instead of sleeping"),
    ("#[ignore", "a test that does not run guards nothing"),
    ("/// ```", "the test command runs no examples in comments: write a test"),
    ("//! ```", "the test command runs no examples in comments: write a test"),
];

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for source in super::rust(sources) {
        check_length(source, &mut findings);
        for (number, line) in (1..).zip(source.text.lines()) {
            let mut find = |what: &str| findings.push(format!("{}:{number}: {what}", source.path));
            if line.chars().count() > COLUMNS_MAX {
                find(&format!("the line is longer than {COLUMNS_MAX} characters"));
            }
            // The rules themselves have to name what they look for.
            if source.is_in("xtask/src/tidy") {
                continue;
            }
            for (text, advice) in FORBIDDEN.iter().filter(|(text, _)| line.contains(text)) {
                find(&format!("`{text}`: {advice}"));
            }
        }
    }
    findings
}

fn check_length(source: &Source, findings: &mut Vec<String>) {
    let lines = source.shipped_lines().count();
    if lines > LINES_MAX {
        findings.push(format!("{}: {lines} lines, at most {LINES_MAX}: find the missing noun", source.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        check(&[Source::new("crates/model/src/runs.rs", text)])
    }

    #[test]
    fn long_files_are_found_and_their_unit_tests_do_not_count() {
        assert!(found(&"a\n".repeat(400)).is_empty());
        assert_eq!(found(&"a\n".repeat(401)).len(), 1);
        assert!(found(&("a\n".repeat(400) + "#[cfg(test)]\n" + &"a\n".repeat(100))).is_empty());
    }

    #[test]
    fn long_lines_are_found_with_their_number() {
        assert!(found(&"a".repeat(125)).is_empty());
        assert_eq!(
            found(&format!("a\n{}", "ü".repeat(126))),
            ["crates/model/src/runs.rs:2: the line is longer than 125 characters"]
        );
    }

    #[test]
    fn unfinished_code_sleeps_and_tests_that_do_not_run_are_found() {
        for line in ["// TODO: later", "std::thread::sleep(pause);", "#[ignore = \"slow\"]", "/// ```"] {
            assert_eq!(found(line).len(), 1, "{line}");
        }
        assert!(found("tokio::time::sleep(pause).await;").is_empty());
    }
}
