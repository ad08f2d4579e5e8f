//! `interlock locks inventory`: the table of every lock, from the code.

use std::time::Duration;

use interlock_api::locks::{InventoryRow, inventory};
use interlock_api::{Page, schema};
use interlock_model::lock::Inventory;

use crate::exit::Result;
use crate::output::{self, Column, Output, or_dash, reference};
use crate::wiring::PREFIX_DEFAULT;

pub(super) fn print(output: Output, markdown: bool) -> Result<()> {
    let page = Page::new(inventory(&Inventory::default(), PREFIX_DEFAULT), None);
    if markdown {
        return output::raw(reference(&COLUMNS, &page.items, true).as_bytes());
    }
    output.result(&page, |page| reference(&COLUMNS, &page.items, false))
}

const COLUMNS: [Column<InventoryRow>; 8] = [
    ("KEY", |row| row.key.clone()),
    ("KIND", |row| schema::name(&row.kind)),
    ("TTL", |row| seconds(row.ttl_ms)),
    ("RENEWED", |row| or_dash(row.renew_ms.map(seconds).as_ref())),
    ("FAILURES", |row| or_dash(row.max_failures.as_ref())),
    ("RELEASE", |row| schema::name(&row.release)),
    ("PROTECTS", |row| row.protects.clone()),
    ("WHEN IT IS LOST", |row| row.on_loss.clone()),
];

fn seconds(milliseconds: u64) -> String {
    format!("{} s", Duration::from_millis(milliseconds).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_inventory_as_the_code_has_it() {
        let generated = reference(&COLUMNS, &inventory(&Inventory::default(), PREFIX_DEFAULT), true);
        assert_eq!(
            output::tests::documented("concepts/locks.md", "inventory"),
            generated,
            "put what `interlock locks inventory --markdown` prints between the marks in docs/concepts/locks.md"
        );
    }
}
