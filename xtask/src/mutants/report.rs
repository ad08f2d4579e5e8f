//! What became of the mutants.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::running::Catch;
use crate::command::root;

/// Where the mutants are explained that no test can catch.
const EXPLAINED_IN: &str = "docs/testing.md";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    Caught {
        program: String,
        catch: Catch,
    },
    /// No test fails; `is_reached` by some.
    Survived {
        is_reached: bool,
    },
}

/// A mutant's name, where it is, and its fate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) fate: Fate,
}

impl Judged {
    pub(crate) fn is_caught(&self) -> bool {
        matches!(self.fate, Fate::Caught { .. })
    }

    fn row(&self) -> Value {
        let (fate, program, tests) = match &self.fate {
            Fate::Caught { program, catch: Catch::Failed(tests) } => {
                ("caught", program.as_str(), tests.as_slice())
            }
            Fate::Caught { program, catch: Catch::TimedOut } => ("timed out", program.as_str(), &[][..]),
            Fate::Survived { is_reached: true } => ("survived", "", &[][..]),
            Fate::Survived { is_reached: false } => ("not reached", "", &[][..]),
        };
        json!({ "name": self.name, "line": self.line, "fate": fate, "program": program, "tests": tests })
    }

    fn of_row(row: &Value) -> Result<Self> {
        let text = |name: &str| {
            row[name].as_str().map(str::to_owned).with_context(|| format!("a row without {name}"))
        };
        let tests = row["tests"].as_array().map_or(&[][..], Vec::as_slice);
        let tests = tests.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let fate = match text("fate")?.as_str() {
            "caught" => Fate::Caught { program: text("program")?, catch: Catch::Failed(tests) },
            "timed out" => Fate::Caught { program: text("program")?, catch: Catch::TimedOut },
            other => Fate::Survived { is_reached: other == "survived" },
        };
        let line = usize::try_from(row["line"].as_u64().unwrap_or_default())?;
        Ok(Self { name: text("name")?, line, fate })
    }
}

/// The results so far, in a file with a line for each mutant: an interrupted run keeps them.
pub(crate) struct Results {
    file: File,
    pub(crate) judged: Vec<Judged>,
}

impl Results {
    /// Begins with what an earlier run has found.
    pub(crate) fn create(path: &Path, known: Vec<Judged>) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        let mut results = Self { file, judged: Vec::new() };
        known.into_iter().try_for_each(|one| results.add(one))?;
        Ok(results)
    }

    pub(crate) fn add(&mut self, judged: Judged) -> Result<()> {
        writeln!(self.file, "{}", judged.row())?;
        self.judged.push(judged);
        Ok(())
    }
}

/// The results of the last run.
pub(crate) fn read(path: &Path) -> Result<Vec<Judged>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines().map(|line| Judged::of_row(&serde_json::from_str(line)?)).collect()
}

/// The mutants that the docs explain as equivalent: the items of the list in that section.
pub(crate) fn explained() -> Result<BTreeSet<String>> {
    let path = root().join(EXPLAINED_IN);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(explained_in(&text))
}

fn explained_in(text: &str) -> BTreeSet<String> {
    let section = text.lines().skip_while(|line| *line != "### Equivalent mutants");
    let section = section.skip(1).take_while(|line| !line.starts_with('#'));
    section.filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
}

/// A table by crate, and the mutants that are neither caught nor explained.
pub(crate) fn summary(judged: &[Judged], explained: &BTreeSet<String>) -> String {
    let mut crates: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    let mut unexplained = Vec::new();
    for one in judged {
        let name = one.name.split('/').nth(1).unwrap_or_default();
        let column = match one.fate {
            Fate::Caught { .. } => 1,
            Fate::Survived { .. } if explained.contains(&one.name) => 2,
            Fate::Survived { .. } => 3,
        };
        for counts in [name, "total"] {
            let row = crates.entry(counts).or_default();
            row[0] += 1;
            row[column] += 1;
        }
        unexplained.extend((column == 3).then_some(one));
    }
    let mut text =
        "\n| crate | mutants | caught | equivalent | survived | score |\n|---|---|---|---|---|---|\n"
            .to_owned();
    let (total, others): (Vec<_>, Vec<_>) = crates.into_iter().partition(|(name, _)| *name == "total");
    for (name, [all, caught, equivalent, survived]) in others.into_iter().chain(total) {
        let tenths = (caught + equivalent) * 1_000 / all.max(1);
        let score = format!("{}.{} %", tenths / 10, tenths % 10);
        let _ = writeln!(text, "| {name} | {all} | {caught} | {equivalent} | {survived} | {score} |");
    }
    for one in unexplained {
        let reached =
            if one.fate == (Fate::Survived { is_reached: false }) { " (no test reaches it)" } else { "" };
        let _ = writeln!(text, "survived: {}, line {}{reached}", one.name, one.line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(name: &str, fate: Fate) -> Judged {
        Judged { name: name.to_owned(), line: 7, fate }
    }

    #[test]
    fn what_survives_is_named_unless_the_docs_explain_it() {
        let caught = Fate::Caught { program: "model/x".to_owned(), catch: Catch::TimedOut };
        let survived = Fate::Survived { is_reached: true };
        let judged = [
            judged("crates/model/a.rs f: no body", caught),
            judged("crates/model/a.rs g: no body", survived.clone()),
            judged("crates/model/a.rs h: no body", survived),
        ];
        let docs = "# Testing\n- other\n### Equivalent mutants\n\n- crates/model/a.rs g: no body\n  Because.\n## Next\n- no";
        let explained = explained_in(docs);
        assert_eq!(explained.len(), 1);
        let summary = summary(&judged, &explained);
        assert!(
            summary.contains("| model | 3 | 1 | 1 | 1 | 66.6 % |\n| total | 3 | 1 | 1 | 1 | 66.6 % |\n"),
            "{summary}"
        );
        assert!(summary.ends_with("survived: crates/model/a.rs h: no body, line 7\n"), "{summary}");
    }

    #[test]
    fn results_are_read_back_as_they_were_written() {
        let path = std::env::temp_dir().join(format!("interlock-results-{}", std::process::id()));
        let by = |catch| Fate::Caught { program: "p".to_owned(), catch };
        let before = vec![
            judged("a", by(Catch::Failed(vec!["t".to_owned()]))),
            judged("b", by(Catch::TimedOut)),
            judged("c", Fate::Survived { is_reached: true }),
            judged("d", Fate::Survived { is_reached: false }),
        ];
        Results::create(&path, before.clone()).unwrap();
        assert_eq!(read(&path).unwrap(), before);
        fs::remove_file(path).unwrap();
    }
}
