//! Rows that most decisions of a transaction read or change, in memory until it commits: each is read once and written once,
//! however many decisions share it.

use std::collections::HashMap;

use interlock_backend::local::Table;

/// Tenants and groups of limits change with every start; the others are read by each.
const HOT: [Table; 5] =
    [Table::Tenants, Table::LimitGroups, Table::Limits, Table::System, Table::WorkflowHeads];

#[derive(Debug)]
pub(crate) struct HotRow {
    /// None: there is no such row.
    pub(crate) value: Option<String>,
    /// The table does not have it yet.
    is_changed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct HotRows([HashMap<String, HotRow>; HOT.len()]);

impl HotRows {
    pub(crate) fn holds(table: Table) -> bool {
        HOT.contains(&table)
    }

    fn of(&mut self, table: Table) -> Option<&mut HashMap<String, HotRow>> {
        HOT.iter().position(|hot| *hot == table).map(|at| &mut self.0[at])
    }

    pub(crate) fn get(&mut self, table: Table, key: &str) -> Option<&HotRow> {
        self.of(table)?.get(key)
    }

    pub(crate) fn was_read(&mut self, table: Table, key: &str, value: Option<&String>) {
        if let Some(rows) = self.of(table) {
            rows.insert(key.to_owned(), HotRow { value: value.cloned(), is_changed: false });
        }
    }

    pub(crate) fn was_changed(&mut self, table: Table, key: &str, value: Option<&str>) {
        if let Some(rows) = self.of(table) {
            rows.insert(key.to_owned(), HotRow { value: value.map(ToOwned::to_owned), is_changed: true });
        }
    }

    /// What a table does not have yet.
    pub(crate) fn changed(&mut self, table: Table) -> Vec<(String, Option<String>)> {
        let changed = self.of(table).into_iter().flatten().filter(|(_, row)| row.is_changed);
        changed.map(|(key, row)| (key.clone(), row.value.clone())).collect()
    }

    pub(crate) fn were_written(&mut self, table: Table) {
        for row in self.of(table).into_iter().flat_map(HashMap::values_mut) {
            row.is_changed = false;
        }
    }

    pub(crate) fn tables() -> impl Iterator<Item = Table> {
        HOT.into_iter()
    }

    pub(crate) fn forget(&mut self) {
        for rows in &mut self.0 {
            rows.clear();
        }
    }
}
