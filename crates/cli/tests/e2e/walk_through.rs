//! The commands of the documentation, run as written.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::server::{BINARY, Server};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout exists")
}

pub(crate) fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).expect("the document exists")
}

/// The code blocks of `document` of this kind.
pub(crate) fn blocks(document: &str, kind: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for line in document.lines() {
        match &mut open {
            None if line == format!("```{kind}") => open = Some(String::new()),
            None => {}
            Some(block) if line == "```" => {
                found.push(std::mem::take(block));
                open = None;
            }
            Some(block) => block.extend([line, "\n"]),
        }
    }
    found
}

/// Runs lines in the root of the checkout, with the binary under test and its server in place of the documented ones.
pub(crate) fn run(server: &Server, lines: &str) -> (bool, String) {
    let folder = Path::new(BINARY).parent().expect("the binary stands in a folder");
    let lines = lines.replace("$PWD/target/release", &folder.display().to_string());
    let lines = lines.replace("http://127.0.0.1:8081", &server.base);
    // Background processes end with the shell.
    let script = format!("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{lines}");
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(root())
        .env("INTERLOCK_GATEWAY", &server.base)
        .output()
        .expect("bash runs");
    let printed =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (output.status.success(), printed)
}

#[tokio::test]
async fn the_readmes_walk_through_works_by_copy_and_paste() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let (worked, printed) = run(&server, &blocks(&read("README.md"), "sh walk-through").join("\n"));
    assert!(worked, "{printed}");
    assert!(printed.contains("succeeded"), "{printed}");
    assert!(printed.contains("Hello, Ada!"), "{printed}");
    assert!(printed.contains("\"replayed\":false"), "{printed}");
}

#[tokio::test]
async fn the_commands_of_the_pages_work() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    for document in [
        "docs/concepts/admission.md",
        "docs/concepts/scheduling.md",
        "docs/concepts/workers.md",
        "docs/concepts/dispatch-policy.md",
        "docs/concepts/limits.md",
        "docs/concepts/locks.md",
        "docs/concepts/budgets.md",
        "docs/operating/dead-letters.md",
        "docs/operating/doctor.md",
        "docs/operating/retry-policies.md",
        "docs/operating/rollouts.md",
        "docs/operating/why.md",
        "SECURITY.md",
    ] {
        let path = "export PATH=\"$PWD/target/release:$PATH\"\n";
        let (worked, printed) =
            run(&server, &format!("{path}{}", blocks(&read(document), "sh walk-through").join("\n")));
        assert!(worked, "{document}: {printed}");
    }
}

#[test]
fn the_readme_begins_with_the_two_commands() {
    let commands = blocks(&read("README.md"), "sh");
    assert_eq!(commands, ["cargo run --release -- serve\n", "cargo xtask test\n"]);
}
