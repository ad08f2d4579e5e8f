//! `interlock locks inventory`: the table of every lock, from the code.

use std::time::Duration;

use interlock_api::locks::{InventoryRow, inventory};
use interlock_api::{Page, schema};
use interlock_model::lock::Inventory;

use crate::exit::Result;
use crate::output::{self, Output, or_dash, reference};
use crate::wiring::PREFIX_DEFAULT;

pub(super) fn print(output: Output, markdown: bool) -> Result<()> {
    let page = Page::new(inventory(&Inventory::default(), PREFIX_DEFAULT), None);
    if markdown {
        return output::raw(describe(&page.items, true).as_bytes());
    }
    output.result(&page, |page| describe(&page.items, false))
}

const TITLES: [&str; 8] =
    ["key", "kind", "ttl", "renewed", "failures", "release", "protects", "when it is lost"];

fn describe(rows: &[InventoryRow], markdown: bool) -> String {
    let seconds = |milliseconds: u64| format!("{} s", Duration::from_millis(milliseconds).as_secs_f64());
    let cells = |row: &InventoryRow| {
        [
            row.key.clone(),
            schema::name(&row.kind),
            seconds(row.ttl_ms),
            or_dash(row.renew_ms.map(seconds).as_ref()),
            or_dash(row.max_failures.as_ref()),
            schema::name(&row.release),
            row.protects.clone(),
            row.on_loss.clone(),
        ]
    };
    reference(TITLES, rows.iter().map(cells), markdown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_inventory_as_the_code_has_it() {
        let generated = describe(&inventory(&Inventory::default(), PREFIX_DEFAULT), true);
        assert_eq!(
            output::tests::documented("concepts/locks.md", "inventory"),
            generated,
            "put what `interlock locks inventory --markdown` prints between the marks in docs/concepts/locks.md"
        );
    }
}
