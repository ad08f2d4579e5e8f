use interlock_backend::local::{Changes, Decision, Executor, Pick, Table, View};
use interlock_backend_embedded::EmbeddedTables;

use crate::rows::fresh;

/// In byte order, which is neither the order of an alphabet nor that of UTF-16.
const KEYS: [&str; 14] = [
    "a",
    "a\0",
    "a\0b",
    "a-b/1",
    "a.b/1",
    "a/",
    "a/.",
    "a//",
    "a/0",
    "a/Z",
    "a/é",
    "a/\u{ffff}",
    "a/𝄞",
    "a0",
];

async fn filled() -> (EmbeddedTables, tempfile::TempDir) {
    let (tables, folder) = fresh();
    let decide = |_: &dyn View, _| {
        let mut changes = Changes::default();
        for key in KEYS.iter().rev() {
            changes.put(Table::Timeline, *key, &format!("value of {key}"));
        }
        changes.mark(Table::Ready, "a/in another table");
        Ok(Decision { answer: (), changes })
    };
    tables.write("fill", decide).await.unwrap();
    (tables, folder)
}

/// The keys that the writer's view and a reader's view agree on.
async fn scan(
    tables: &EmbeddedTables,
    (from, until): (&'static str, &'static str),
    pick: Pick,
) -> Vec<String> {
    let scan = move |view: &dyn View| view.scan(Table::Timeline, from, until, pick);
    let read = tables.read("scan", move |view, _| scan(view)).await.unwrap();
    let decided = tables.write("scan", move |view, _| scan(view).map(Decision::unchanged)).await.unwrap();
    assert_eq!(read, decided);
    read.into_iter().map(|row| row.key).collect()
}

#[tokio::test]
async fn a_scan_goes_in_byte_order_both_ways() {
    let (tables, _folder) = filled().await;
    let all = ("", "b");
    assert_eq!(scan(&tables, all, Pick::First(100)).await, KEYS);
    let mut reversed = scan(&tables, all, Pick::Last(usize::MAX)).await;
    reversed.reverse();
    assert_eq!(reversed, KEYS);
}

#[tokio::test]
async fn a_scan_includes_its_start_and_excludes_its_end() {
    let (tables, _folder) = filled().await;
    let prefix = ("a/", "a0");
    let within = ["a/", "a/.", "a//", "a/0", "a/Z", "a/é", "a/\u{ffff}", "a/𝄞"];
    assert_eq!(scan(&tables, prefix, Pick::First(100)).await, within);
    assert_eq!(scan(&tables, ("a/0", "a/é"), Pick::First(100)).await, ["a/0", "a/Z"]);
    assert_eq!(scan(&tables, ("a0", "a0"), Pick::First(100)).await, [""; 0]);
    assert_eq!(scan(&tables, ("b", "a"), Pick::Last(100)).await, [""; 0]);
}

#[tokio::test]
async fn a_scan_stops_at_its_limit_from_either_end() {
    let (tables, _folder) = filled().await;
    let prefix = ("a/", "a0");
    assert_eq!(scan(&tables, prefix, Pick::First(2)).await, ["a/", "a/."]);
    assert_eq!(scan(&tables, prefix, Pick::Last(2)).await, ["a/𝄞", "a/\u{ffff}"]);
    assert_eq!(scan(&tables, prefix, Pick::First(0)).await, [""; 0]);
}

#[tokio::test]
async fn a_row_keeps_its_value_to_the_letter() {
    let (tables, _folder) = filled().await;
    let row = tables.read("get", |view, _| view.get(Table::Timeline, "a/𝄞")).await.unwrap();
    assert_eq!(row.as_deref(), Some("\"value of a/𝄞\""));
    let mark = tables.read("get", |view, _| view.get(Table::Ready, "a/in another table")).await.unwrap();
    assert_eq!(mark.as_deref(), Some(""));
}
