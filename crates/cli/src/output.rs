//! Everything that is printed. Results go to standard output, words to people go to standard error.

use std::io::{self, ErrorKind, IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, presets};
use interlock_api::client::Error;
use serde::Serialize;

use crate::exit::{Exit, Failure, Result};

/// Where results go, and in which form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Whether a person sees the results as they come.
    pub(crate) fn is_live(self) -> bool {
        !self.json && io::stdout().is_terminal() && io::stderr().is_terminal()
    }

    /// A result: the server's JSON, or what `for_people` makes of it.
    pub(crate) fn result<T: Serialize>(self, value: &T, for_people: impl FnOnce(&T) -> String) -> Result<()> {
        if self.json { document(value) } else { line(&for_people(value)) }
    }

    /// Something that was done and has no answer to show.
    pub(crate) fn done(self, value: &serde_json::Value, sentence: &str) -> Result<()> {
        if self.json {
            document(value)
        } else {
            say(sentence);
            Ok(())
        }
    }

    /// Tells why a command did not do its work. With `--json`, programs find the refusal on standard output.
    pub(crate) fn failure(self, failure: &Failure) -> Exit {
        if let (true, Failure::Api(Error::Problem(problem))) = (self.json, failure) {
            let _shown = document(problem);
        }
        if !matches!(failure, Failure::Unread) {
            say(&format!("interlock: {failure}"));
        }
        failure.exit()
    }
}

/// One JSON document, for people who look at it too.
fn document<T: Serialize>(value: &T) -> Result<()> {
    let text = serde_json::to_string_pretty(value).expect("wire types are JSON");
    raw(format!("{text}\n").as_bytes())
}

/// One JSON document a line, for what comes as a stream.
pub(crate) fn json_line<T: Serialize>(value: &T) -> Result<()> {
    let text = serde_json::to_string(value).expect("wire types are JSON");
    raw(format!("{text}\n").as_bytes())
}

/// Text for people, on standard output.
pub(crate) fn line(text: &str) -> Result<()> {
    raw(format!("{}\n", printable(text.trim_end_matches('\n'))).as_bytes())
}

pub(crate) fn raw(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::Unread),
        Err(error) => Err(Failure::local("write the result")(error)),
    }
}

/// Words to people. If nobody hears them, nothing is lost.
pub(crate) fn say(text: &str) {
    let _heard = writeln!(io::stderr().lock(), "{}", printable(text));
}

/// A table without lines: as readable for `awk` as for people.
pub(crate) fn table<const N: usize>(
    titles: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    grid(titles.to_vec(), rows.into_iter().map(Vec::from))
}

/// The same, where the columns depend on what is shown.
pub(crate) fn grid(titles: Vec<&str>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(titles);
    // Wrapping is for eyes; a program wants one line a row.
    let line = |cell: String| cell.replace(['\n', '\t'], " ");
    table.add_rows(rows.into_iter().map(|row| row.into_iter().map(line).collect::<Vec<_>>()));
    if io::stdout().is_terminal() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        table.force_no_tty();
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// Names and values, one pair a line. What has no value is left out.
pub(crate) fn fields(pairs: &[(&str, Option<String>)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = pairs.iter().filter_map(|(name, value)| Some(format!("{name:width$}  {}", value.as_ref()?)));
    lines.collect::<Vec<_>>().join("\n")
}

/// A value where there may be none.
pub(crate) fn or_dash<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}

/// What came from elsewhere must not steer a terminal.
fn printable(text: &str) -> String {
    let harmless = |letter: char| if letter.is_control() && letter != '\n' { '\u{fffd}' } else { letter };
    text.chars().map(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_elsewhere_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\r\nc\u{9b}d"), "a\u{fffd}[31mb\u{fffd}\nc\u{fffd}d");
    }

    #[test]
    fn a_table_is_plain_text_with_one_line_a_row() {
        let long = "x".repeat(300);
        let text = table(["ID", "STATUS"], [[long.clone(), "running".to_owned()]]);
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().last().is_some_and(|row| row.starts_with(&long) && row.ends_with("running")));
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn fields_are_aligned_and_absent_ones_left_out() {
        let text =
            fields(&[("id", Some("1".to_owned())), ("error", None), ("status", Some("failed".to_owned()))]);
        assert_eq!(text, "id      1\nstatus  failed");
    }
}
