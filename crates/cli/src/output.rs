//! Everything that is printed: results to standard output, messages to standard error.

use std::io::{self, ErrorKind, IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, presets};
use interlock_api::client::Error;
use serde::Serialize;

use crate::exit::{Exit, Failure, Result};

/// The form of results.
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

    /// A change without an answer to show: JSON, or a message.
    pub(crate) fn done(self, value: &serde_json::Value, sentence: &str) -> Result<()> {
        if self.json {
            document(value)
        } else {
            say(sentence);
            Ok(())
        }
    }

    /// Prints why a command failed. With `--json`, programs find the problem on standard output.
    pub(crate) fn failure(self, failure: &Failure) -> Exit {
        if let (true, Failure::Api(Error::Problem(problem))) = (self.json, failure) {
            let _shown = document(problem);
        }
        if !matches!(failure, Failure::Unread) {
            say(&format!("interlock: {failure}"));
        }
        if matches!(failure, Failure::Api(Error::Unreachable { .. })) {
            say("Is `interlock serve` running? Choose another gateway with --gateway or INTERLOCK_GATEWAY");
        }
        failure.exit()
    }
}

fn document<T: Serialize>(value: &T) -> Result<()> {
    raw(format!("{}\n", pretty(value)).as_bytes())
}

pub(crate) fn pretty<T: Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).expect("wire types are JSON")
}

/// One line of a stream of JSON documents.
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

/// A message to people. It may go to a closed pipe.
pub(crate) fn say(text: &str) {
    let _written = writeln!(io::stderr().lock(), "{}", printable(text));
}

/// A column of a table: its title, and its cell in the row of an item.
pub(crate) type Column<T> = (&'static str, fn(&T) -> String);

/// One row per item, without borders, so that `awk` can read it.
pub(crate) fn table<'a, T: 'a>(columns: &[Column<T>], items: impl IntoIterator<Item = &'a T>) -> String {
    grid(columns.iter().map(|(title, _)| *title).collect(), cells(columns, items))
}

fn cells<'a, T: 'a>(
    columns: &[Column<T>],
    items: impl IntoIterator<Item = &'a T>,
) -> impl Iterator<Item = Vec<String>> {
    items.into_iter().map(|item| columns.iter().map(|(_, cell)| cell(item)).collect())
}

/// A [`table`] of cells.
pub(crate) fn grid(titles: Vec<&str>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(titles);
    // Programs expect one line per row.
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

/// A table for people, or in Markdown for the documentation, whose first column is code.
pub(crate) fn reference<T>(columns: &[Column<T>], items: &[T], markdown: bool) -> String {
    if !markdown {
        return table(columns, items);
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let titles = columns.iter().map(|(title, _)| title.to_lowercase()).collect();
    let rows = cells(columns, items).map(|mut cells| {
        cells[0] = format!("`{}`", cells[0]);
        line(cells)
    });
    line(titles) + &"|---".repeat(columns.len()) + "|\n" + &rows.collect::<String>()
}

/// Names and values, one pair per line, without those that have no value.
pub(crate) fn fields(pairs: &[(&str, Option<String>)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = pairs.iter().filter_map(|(name, value)| Some(format!("{name:width$}  {}", value.as_ref()?)));
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn or_dash<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}

/// Text from a server must not contain control sequences of a terminal.
fn printable(text: &str) -> String {
    let replace = |letter: char| if letter.is_control() && letter != '\n' { '\u{fffd}' } else { letter };
    text.chars().map(replace).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What a page of the documentation has between the marks `<!-- NAME -->` and `<!-- end of NAME -->`.
    pub(crate) fn documented(page: &str, name: &str) -> String {
        let page = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
        let page = std::fs::read_to_string(page).unwrap();
        let (_, rest) = page.split_once(&format!("<!-- {name} -->\n")).expect("the page has the first mark");
        let (text, _) =
            rest.split_once(&format!("<!-- end of {name} -->")).expect("the page has the second mark");
        text.to_owned()
    }

    #[test]
    fn control_sequences_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\r\nc\u{9b}d"), "a\u{fffd}[31mb\u{fffd}\nc\u{fffd}d");
    }

    #[test]
    fn a_table_is_plain_text_with_one_line_per_row() {
        let long = "x".repeat(300);
        let columns: [Column<String>; 2] = [("ID", String::clone), ("STATUS", |_| "running".to_owned())];
        let text = table(&columns, [&long]);
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
