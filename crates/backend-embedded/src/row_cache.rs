//! The rows that almost every start reads, in memory: tenants, limits, current workflow versions.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{PoisonError, RwLock};

use interlock_backend::local::{Decision, Pick, Row, Table, View};
use interlock_backend::{Effect, StoreError};
use rusqlite::Connection;

use crate::error::unavailable;
use crate::statements::{key, value};

const CACHED: [Table; 4] = [Table::Tenants, Table::System, Table::WorkflowHeads, Table::Limits];

/// A row as a decision left it: the value, or none if it was deleted.
pub(crate) type Write = (Table, String, Option<String>);

type Rows = [HashMap<String, String>; CACHED.len()];

/// Committed rows only, and all that one commit wrote at once.
#[derive(Debug)]
pub(crate) struct RowCache {
    rows: RwLock<Rows>,
}

impl RowCache {
    pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let mut rows = Rows::default();
        for (held, table) in rows.iter_mut().zip(CACHED) {
            let mut statement = connection.prepare(&format!("SELECT key, value FROM {}", table.name()))?;
            let pairs = statement.query_map([], |row| Ok((key(row, 0)?, value(row, 1)?)))?;
            *held = pairs.collect::<rusqlite::Result<_>>()?;
        }
        Ok(Self { rows: RwLock::new(rows) })
    }

    /// Whether the rows of `table` are cached.
    pub(crate) fn holds(table: Table) -> bool {
        position(table).is_some()
    }

    /// Caches what a commit wrote. The one writer calls this between the commit and its answers, so that the
    /// order here is the order of the commits.
    pub(crate) fn publish(&self, writes: Vec<Write>) {
        if writes.is_empty() {
            return;
        }
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        for (table, key, value) in writes {
            let Some(held) = position(table) else { continue };
            match value {
                Some(value) => rows[held].insert(key, value),
                None => rows[held].remove(&key),
            };
        }
    }

    /// Runs `decide` on one moment of these rows. No answer if it needs others, fails, or would change something.
    pub(crate) fn peek<R>(
        &self,
        decide: impl FnOnce(&dyn View) -> Result<Decision<R>, StoreError>,
    ) -> Option<R> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        let view = CacheView { rows: &rows, missed: Cell::new(false) };
        // The writer decides next, and reports the panic.
        let decision = catch_unwind(AssertUnwindSafe(|| decide(&view))).ok()?.ok()?;
        let settled = !view.missed.get() && decision.changes.is_empty();
        settled.then_some(decision.answer)
    }
}

fn position(table: Table) -> Option<usize> {
    CACHED.iter().position(|held| *held == table)
}

/// A view of the cached rows. It remembers that others were needed, whatever the decision does with the error.
struct CacheView<'a> {
    rows: &'a Rows,
    missed: Cell<bool>,
}

impl CacheView<'_> {
    fn miss(&self) -> StoreError {
        self.missed.set(true);
        unavailable("read rows in memory", Effect::NotDone, &"they are not cached")
    }
}

impl View for CacheView<'_> {
    fn get(&self, table: Table, key: &str) -> Result<Option<String>, StoreError> {
        let held = position(table).ok_or_else(|| self.miss())?;
        Ok(self.rows[held].get(key).cloned())
    }

    fn scan(&self, _: Table, _: &str, _: &str, _: Pick) -> Result<Vec<Row>, StoreError> {
        Err(self.miss())
    }
}

#[cfg(test)]
mod tests {
    use interlock_backend::local::Changes;

    use super::*;

    fn holding(key: &str, value: &str) -> RowCache {
        let cache = RowCache { rows: RwLock::default() };
        cache.publish(vec![(Table::Tenants, key.to_owned(), Some(value.to_owned()))]);
        cache
    }

    #[test]
    fn cached_rows_are_answered_from_memory() {
        let cache = holding("acme", "7");
        let found = cache.peek(|view| view.get(Table::Tenants, "acme").map(Decision::unchanged));
        assert_eq!(found, Some(Some("7".to_owned())));
        cache.publish(vec![(Table::Tenants, "acme".to_owned(), None)]);
        let found = cache.peek(|view| view.get(Table::Tenants, "acme").map(Decision::unchanged));
        assert_eq!(found, Some(None));
    }

    #[test]
    fn a_decision_that_needs_other_rows_has_no_answer_even_if_it_ignores_the_error() {
        let cache = holding("acme", "7");
        assert_eq!(cache.peek(|view| view.get(Table::Heads, "acme/1").map(Decision::unchanged)), None);
        let carries_on = |view: &dyn View| {
            let rows = view.scan(Table::Tenants, "", "z", Pick::First(1)).unwrap_or_default();
            Ok(Decision::unchanged(rows))
        };
        assert_eq!(cache.peek(carries_on), None);
    }

    #[test]
    fn a_decision_that_changes_fails_or_panics_has_no_answer() {
        let cache = holding("acme", "7");
        let changing = |_: &dyn View| {
            let mut changes = Changes::default();
            changes.mark(Table::Tenants, "acme");
            Ok(Decision { answer: (), changes })
        };
        assert_eq!(cache.peek(changing), None);
        assert_eq!(cache.peek::<()>(|_| Err(StoreError::Conflict("no".to_owned()))), None);
        assert_eq!(cache.peek::<()>(|_| panic!("a bug")), None);
    }
}
