//! The five statements of a table, prepared when first needed and then kept: they are the hot path.

use std::cell::RefCell;

use interlock_backend::StoreError;
use interlock_backend::local::{Pick, Row, Table, View};
use rusqlite::types::Type;
use rusqlite::{Connection, Error, PrepFlags, Statement};

use crate::error::unreadable;
use crate::hot_rows::HotRows;

#[derive(Debug, Clone, Copy)]
enum Verb {
    Get,
    Put,
    Delete,
    ScanUp,
    ScanDown,
}

const VERBS: usize = 5;

/// A statement, once it was needed.
type Slot<'c> = RefCell<Option<Statement<'c>>>;

/// Reads and writes rows over one connection.
pub(crate) struct Statements<'c> {
    connection: &'c Connection,
    slots: Vec<[Slot<'c>; VERBS]>,
    /// Of the transaction; none where there is no transaction.
    hot: Option<RefCell<HotRows>>,
}

impl<'c> Statements<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self { connection, slots: Table::ALL.iter().map(|_| Default::default()).collect(), hot: None }
    }

    /// For transactions: each begins with [`forget_hot`](Self::forget_hot) and ends with [`write_hot`](Self::write_hot).
    pub(crate) fn of_writer(connection: &'c Connection) -> Self {
        Self { hot: Some(RefCell::default()), ..Self::new(connection) }
    }

    pub(crate) fn forget_hot(&self) {
        if let Some(hot) = &self.hot {
            hot.borrow_mut().forget();
        }
    }

    pub(crate) fn write_hot(&self) -> rusqlite::Result<()> {
        HotRows::tables().try_for_each(|table| self.write_hot_of(table))
    }

    fn write_hot_of(&self, table: Table) -> rusqlite::Result<()> {
        let Some(hot) = &self.hot else { return Ok(()) };
        let changed = hot.borrow_mut().changed(table);
        if !changed.is_empty() {
            changed.iter().try_for_each(|(key, value)| self.write_now(table, key, value.as_deref()))?;
            hot.borrow_mut().were_written(table);
        }
        Ok(())
    }

    /// The tables as this connection sees them; `action` names in errors what the caller wanted.
    pub(crate) fn view(&self, action: &'static str) -> impl View {
        Rows { statements: self, action }
    }

    /// Writes the row, or deletes it if there is no value.
    pub(crate) fn write(&self, table: Table, key: &str, value: Option<&str>) -> rusqlite::Result<()> {
        match &self.hot {
            Some(hot) if HotRows::holds(table) => {
                hot.borrow_mut().was_changed(table, key, value);
                Ok(())
            }
            Some(_) | None => self.write_now(table, key, value),
        }
    }

    fn write_now(&self, table: Table, key: &str, value: Option<&str>) -> rusqlite::Result<()> {
        let verb = if value.is_some() { Verb::Put } else { Verb::Delete };
        self.run(table, verb, |statement| {
            statement.raw_bind_parameter(1, key)?;
            if let Some(value) = value {
                statement.raw_bind_parameter(2, value)?;
            }
            statement.raw_execute().map(drop)
        })
    }

    fn get(&self, table: Table, key: &str) -> rusqlite::Result<Option<String>> {
        let Some(hot) = &self.hot else { return self.get_now(table, key) };
        if let Some(row) = hot.borrow_mut().get(table, key) {
            return Ok(row.value.clone());
        }
        let found = self.get_now(table, key)?;
        hot.borrow_mut().was_read(table, key, found.as_ref());
        Ok(found)
    }

    fn get_now(&self, table: Table, key: &str) -> rusqlite::Result<Option<String>> {
        self.run(table, Verb::Get, |statement| {
            statement.raw_bind_parameter(1, key)?;
            statement.raw_query().next()?.map(|row| value(row, 0)).transpose()
        })
    }

    fn scan(
        &self,
        table: Table,
        verb: Verb,
        (from, until): (&str, &str),
        limit: usize,
    ) -> rusqlite::Result<Vec<Row>> {
        self.write_hot_of(table)?;
        self.run(table, verb, |statement| {
            statement.raw_bind_parameter(1, from)?;
            statement.raw_bind_parameter(2, until)?;
            statement.raw_bind_parameter(3, i64::try_from(limit).unwrap_or(i64::MAX))?;
            let row = |row: &rusqlite::Row<'_>| Ok(Row { key: key(row, 0)?, value: value(row, 1)? });
            statement.raw_query().mapped(row).collect()
        })
    }

    fn run<T>(
        &self,
        table: Table,
        verb: Verb,
        work: impl FnOnce(&mut Statement<'c>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut slot = self.slots[table as usize][verb as usize].borrow_mut();
        let statement = match slot.take() {
            Some(statement) => statement,
            None => {
                self.connection.prepare_with_flags(&sql(table, verb), PrepFlags::SQLITE_PREPARE_PERSISTENT)?
            }
        };
        work(slot.insert(statement))
    }
}

/// Stands before a value that is not UTF-8. No JSON begins with it: the row is read as a damaged one, and the rows beside
/// it are read.
const NO_TEXT: char = char::REPLACEMENT_CHARACTER;

/// The value of a row, which something else may have changed.
pub(crate) fn value(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<String> {
    let bytes = row.get_ref(column)?.as_bytes()?;
    let text = std::str::from_utf8(bytes).map(ToOwned::to_owned);
    Ok(text.unwrap_or_else(|_| format!("{NO_TEXT}{}", String::from_utf8_lossy(bytes))))
}

/// The key of a row. Places in lists are keys, so that one which is not text cannot be passed over.
pub(crate) fn key(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<String> {
    let bytes = row.get_ref(column)?.as_bytes()?;
    let text = std::str::from_utf8(bytes).map(ToOwned::to_owned);
    text.map_err(|error| {
        let reason = format!("the key {:?} is not text: {error}", String::from_utf8_lossy(bytes));
        Error::FromSqlConversionFailure(column, Type::Text, reason.into())
    })
}

fn sql(table: Table, verb: Verb) -> String {
    let table = table.name();
    match verb {
        Verb::Get => format!("SELECT value FROM {table} WHERE key = ?1"),
        // Cheaper than an upsert: with no other index, SQLite overwrites without looking first.
        Verb::Put => format!("INSERT OR REPLACE INTO {table} (key, value) VALUES (?1, ?2)"),
        Verb::Delete => format!("DELETE FROM {table} WHERE key = ?1"),
        Verb::ScanUp => scan(table, "ASC"),
        Verb::ScanDown => scan(table, "DESC"),
    }
}

fn scan(table: &str, direction: &str) -> String {
    format!("SELECT key, value FROM {table} WHERE key >= ?1 AND key < ?2 ORDER BY key {direction} LIMIT ?3")
}

struct Rows<'s, 'c> {
    statements: &'s Statements<'c>,
    action: &'static str,
}

impl View for Rows<'_, '_> {
    fn get(&self, table: Table, key: &str) -> Result<Option<String>, StoreError> {
        self.statements.get(table, key).map_err(|error| unreadable(self.action, table, key, &error))
    }

    fn scan(&self, table: Table, from: &str, until: &str, pick: Pick) -> Result<Vec<Row>, StoreError> {
        let (verb, limit) = match pick {
            Pick::First(limit) => (Verb::ScanUp, limit),
            Pick::Last(limit) => (Verb::ScanDown, limit),
        };
        self.statements
            .scan(table, verb, (from, until), limit)
            .map_err(|error| unreadable(self.action, table, from, &error))
    }
}
