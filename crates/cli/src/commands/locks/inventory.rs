//! `interlock locks inventory`: the table of every lock, from the code itself.

use std::time::Duration;

use interlock_api::locks::{InventoryRow, inventory};
use interlock_api::{Page, schema};
use interlock_model::lock::Inventory;

use crate::exit::Result;
use crate::output::{self, Output, table};
use crate::wiring::PREFIX_DEFAULT;

pub(super) fn print(output: Output, markdown: bool) -> Result<()> {
    let page = Page::new(inventory(&Inventory::default(), PREFIX_DEFAULT), None);
    if markdown {
        return output::raw(as_markdown(&page.items).as_bytes());
    }
    output.result(&page, |page| {
        table(TITLES.map(str::to_uppercase).each_ref().map(String::as_str), page.items.iter().map(cells))
    })
}

const TITLES: [&str; 8] =
    ["key", "kind", "ttl", "renewed", "failures", "release", "protects", "when it is lost"];

fn cells(row: &InventoryRow) -> [String; 8] {
    let seconds = |milliseconds: u64| format!("{} s", Duration::from_millis(milliseconds).as_secs_f64());
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    [
        row.key.clone(),
        schema::name(&row.kind),
        seconds(row.ttl_ms),
        or_dash(row.renew_ms.map(seconds)),
        or_dash(row.max_failures.map(|failures| failures.to_string())),
        schema::name(&row.release),
        row.protects.clone(),
        row.on_loss.clone(),
    ]
}

fn as_markdown(rows: &[InventoryRow]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&TITLES.map(str::to_owned));
    text.push_str(&"|---".repeat(TITLES.len()));
    text.push_str("|\n");
    for row in rows {
        let mut cells = cells(row);
        cells[0] = format!("`{}`", cells[0]);
        text.push_str(&line(&cells));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_inventory_as_the_code_has_it() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/concepts/locks.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, rest) = page.split_once("<!-- inventory -->\n").expect("the page marks its inventory");
        let (written, _) = rest.split_once("<!-- end of inventory -->").expect("the page marks its end");
        let generated = as_markdown(&inventory(&Inventory::default(), PREFIX_DEFAULT));
        assert_eq!(
            written, generated,
            "put what `interlock locks inventory --markdown` prints between the marks in docs/concepts/locks.md"
        );
    }
}
