//! Everything that is printed: results to standard output, messages to standard error.

use std::io::{self, ErrorKind, IsTerminal, Write};

use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, presets};
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
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    grid(&titles, cells(columns, items))
}

fn cells<'a, T: 'a>(
    columns: &[Column<T>],
    items: impl IntoIterator<Item = &'a T>,
) -> impl Iterator<Item = Vec<String>> {
    items.into_iter().map(|item| columns.iter().map(|(_, cell)| cell(item)).collect())
}

/// The least room for a last column of sentences. On a narrower terminal, lines are left to the terminal.
const SENTENCE_CHARS_MIN: usize = 24;

/// A [`table`] of cells. Names are never broken, so that they can be copied: only sentences in the last column are.
pub(crate) fn grid(titles: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let width = io::stdout().is_terminal().then(|| Table::new().width()).flatten();
    layout(titles, rows, width.map(usize::from), paints())
}

/// The width is that of the terminal, if there is one; some say that theirs is 0.
fn layout(
    titles: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
    width: Option<usize>,
    is_painted: bool,
) -> String {
    // Programs expect one line per row.
    let line = |cell: String| printable(&cell.replace(['\n', '\t'], " "));
    let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row.into_iter().map(line).collect()).collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty();
    if is_painted {
        table.enforce_styling();
        table.set_header(titles.iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    } else {
        table.set_header(titles);
    }
    let last = titles.len().saturating_sub(1);
    let chars = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(titles.get(at).map_or(0, |title| title.len())) + 2
    };
    let names: usize = (0..last).map(chars).sum();
    let has_sentences = rows.iter().filter_map(|row| row.get(last)).any(|cell| cell.contains(' '));
    table.add_rows(rows.iter().map(|row| {
        row.iter().map(|cell| match color(cell).filter(|_| is_painted) {
            Some(color) => Cell::new(cell).fg(color),
            None => Cell::new(cell),
        })
    }));
    if let Some(width) = width.filter(|width| has_sentences && *width >= names + SENTENCE_CHARS_MIN) {
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        table.set_content_arrangement(ContentArrangement::Dynamic);
        for column in table.column_iter_mut().take(last) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt().replace('\u{1b}', &PAINT.to_string())
}

/// The colour of a status. Other cells have none.
fn color(cell: &str) -> Option<Color> {
    match cell {
        "succeeded" | "completed" | "online" | "active" => Some(Color::Green),
        "failed" | "timed_out" | "denied" | "offline" | "expired" => Some(Color::Red),
        "running" | "leased" | "dispatched" => Some(Color::Cyan),
        "queued" | "waiting" | "paused" | "pending" | "held" | "draining" => Some(Color::Yellow),
        "cancelled" | "skipped" => Some(Color::DarkGrey),
        _ => None,
    }
}

/// The status in its colour, where colours are shown.
pub(crate) fn painted(status: &str) -> String {
    if paints() {
        layout(&[""], [vec![status.to_owned()]], None, true).trim().to_owned()
    } else {
        status.to_owned()
    }
}

/// Whether standard output shows colours, and its reader wants them: see no-color.org.
fn paints() -> bool {
    let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let is_able = std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb");
    is_wanted && is_able && io::stdout().is_terminal()
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

/// Stands for the escape character in sequences of our own, which set colours.
const PAINT: char = '\u{f001b}';

/// Text from a server must not contain control sequences of a terminal. With the letter that stands for ours, it can set
/// colours and nothing else.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        shown.push(match letter {
            PAINT if sets_a_color(&text[at + PAINT.len_utf8()..]) => '\u{1b}',
            letter if letter == PAINT || letter.is_control() && letter != '\n' => '\u{fffd}',
            letter => letter,
        });
    }
    shown
}

fn sets_a_color(text: &str) -> bool {
    let parameters = text
        .strip_prefix('[')
        .map(|rest| rest.trim_start_matches(|it: char| it.is_ascii_digit() || it == ';'));
    parameters.is_some_and(|rest| rest.starts_with('m'))
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
    fn names_are_whole_at_any_width() {
        let id = "0192f0c1-0000-7000-8000-000000000001:build@1";
        let sentence = "no online worker serves the topic, so a person has to start one that does";
        let rows = || [vec![id.to_owned(), "queued".to_owned(), sentence.to_owned()]];
        for width in [None, Some(0), Some(1), Some(20), Some(60), Some(80), Some(100), Some(200)] {
            for is_painted in [false, true] {
                let text = layout(&["ID", "STATUS", "NOTE"], rows(), width, is_painted);
                assert!(text.contains(id), "{width:?}: {text}");
                let has_room = width.is_some_and(|width| width >= id.len() + 2 + 8 + 24);
                let lines = text.lines().count();
                assert_eq!(has_room && width < Some(200), lines > 2, "{width:?}: {text}");
                assert_eq!(text.contains(PAINT), is_painted, "{text}");
                assert!(!text.contains('\u{1b}'));
            }
        }
    }

    #[test]
    fn only_colors_pass_as_control_sequences() {
        assert_eq!(printable("\u{f001b}[38;5;9mx\u{f001b}[0m"), "\u{1b}[38;5;9mx\u{1b}[0m");
        assert_eq!(printable("\u{f001b}[2Jx"), "\u{fffd}[2Jx");
        assert_eq!(printable("\u{f001b}]0;x\u{7}"), "\u{fffd}]0;x\u{fffd}");
    }

    #[test]
    fn fields_are_aligned_and_absent_ones_left_out() {
        let text =
            fields(&[("id", Some("1".to_owned())), ("error", None), ("status", Some("failed".to_owned()))]);
        assert_eq!(text, "id      1\nstatus  failed");
    }
}
