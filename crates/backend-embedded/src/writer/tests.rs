use std::cell::RefCell;

use interlock_backend::StoreError;
use interlock_backend::local::{Decision, Table, View};
use interlock_model::Timestamp;
use rusqlite::ffi;
use tokio::sync::oneshot::Receiver;

use super::*;
use crate::schema;
use crate::write_request::Typed;

#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO
    }
}

fn tables() -> (Connection, RowCache) {
    let mut connection = Connection::open_in_memory().unwrap();
    schema::migrate(&mut connection).unwrap();
    let cache = RowCache::load(&connection).unwrap();
    (connection, cache)
}

/// Requests that are settled together.
#[derive(Default)]
struct Batch(RefCell<Vec<Box<dyn WriteRequest>>>);

impl Batch {
    fn add<R: Send + 'static>(
        &self,
        decide: impl FnOnce(&dyn View) -> Result<Decision<R>, StoreError> + Send + 'static,
    ) -> Receiver<Result<R, StoreError>> {
        let (request, answer) = Typed::channel("test", move |view: &dyn View, _| decide(view));
        self.0.borrow_mut().push(request);
        answer
    }

    fn put(&self, table: Table, key: &'static str, value: String) -> Receiver<Result<(), StoreError>> {
        self.add(move |_| {
            let mut changes = Changes::default();
            changes.put(table, key, &value);
            Ok(Decision { answer: (), changes })
        })
    }

    fn get(&self, table: Table, key: &'static str) -> Receiver<Result<Option<String>, StoreError>> {
        self.add(move |view| view.get(table, key).map(Decision::unchanged))
    }

    fn settle(self, writer: &Writer<'_>) {
        writer.settle(self.0.into_inner());
    }
}

fn effect<R>(mut answer: Receiver<Result<R, StoreError>>) -> Option<Effect> {
    match answer.try_recv().expect("every request is answered") {
        Err(StoreError::Unavailable { effect, .. }) => Some(effect),
        _ => None,
    }
}

fn peek(cache: &RowCache, key: &str) -> Option<String> {
    cache.peek(|view| view.get(Table::Tenants, key).map(Decision::unchanged)).unwrap()
}

fn stored(connection: &Connection, table: Table) -> Vec<(String, String)> {
    let sql = format!("SELECT key, value FROM {} ORDER BY key", table.name());
    let mut statement = connection.prepare(&sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn a_row_that_many_decisions_of_a_batch_change_is_seen_by_each_and_written_once() {
    let (connection, cache) = tables();
    connection
        .execute_batch(
            "CREATE TEMP TABLE writes (key TEXT);
             CREATE TEMP TRIGGER written AFTER INSERT ON main.limit_groups
             BEGIN INSERT INTO writes VALUES (NEW.key); END",
        )
        .unwrap();
    let batch = Batch::default();
    let first = batch.put(Table::LimitGroups, "a/1", "x".to_owned());
    let seen = batch.get(Table::LimitGroups, "a/1");
    let second = batch.put(Table::LimitGroups, "a/1", "y".to_owned());
    let other = batch.put(Table::LimitGroups, "a/2", "z".to_owned());
    let gone = batch.add(|_| {
        let mut changes = Changes::default();
        changes.delete(Table::LimitGroups, "a/2");
        Ok(Decision { answer: (), changes })
    });
    batch.settle(&Writer::new(&connection, &cache, &Stopped));
    for mut answer in [first, second, other, gone] {
        assert_eq!(answer.try_recv().unwrap(), Ok(()));
    }
    assert_eq!({ seen }.try_recv().unwrap(), Ok(Some("\"x\"".to_owned())));
    assert_eq!(stored(&connection, Table::LimitGroups), [("a/1".to_owned(), "\"y\"".to_owned())]);
    let writes: u32 = connection.query_row("SELECT count(*) FROM writes", [], |row| row.get(0)).unwrap();
    assert_eq!(writes, 1);
}

#[test]
fn a_scan_sees_what_an_earlier_decision_of_its_batch_changed_and_the_rest_is_still_written() {
    let (connection, cache) = tables();
    let writer = Writer::new(&connection, &cache, &Stopped);
    let batch = Batch::default();
    let put = batch.put(Table::LimitGroups, "a/1", "x".to_owned());
    let scanned = batch.add(|view| {
        let rows = view.scan(Table::LimitGroups, "a/", "a0", interlock_backend::local::Pick::First(9))?;
        Ok(Decision::unchanged(rows.len()))
    });
    let later = batch.put(Table::LimitGroups, "a/1", "y".to_owned());
    batch.settle(&writer);
    assert_eq!({ put }.try_recv().unwrap(), Ok(()));
    assert_eq!({ scanned }.try_recv().unwrap(), Ok(1));
    assert_eq!({ later }.try_recv().unwrap(), Ok(()));
    assert_eq!(stored(&connection, Table::LimitGroups), [("a/1".to_owned(), "\"y\"".to_owned())]);
    // Another process of ours may have changed it since: nothing is remembered beyond the transaction.
    connection.execute("UPDATE limit_groups SET value = '\"w\"'", []).unwrap();
    let batch = Batch::default();
    let seen = batch.get(Table::LimitGroups, "a/1");
    batch.settle(&writer);
    assert_eq!({ seen }.try_recv().unwrap(), Ok(Some("\"w\"".to_owned())));
}

#[test]
fn a_later_decision_of_a_batch_sees_what_an_earlier_one_changed() {
    let (connection, cache) = tables();
    let batch = Batch::default();
    let before = batch.get(Table::Heads, "a/1");
    let put = batch.put(Table::Heads, "a/1", "x".to_owned());
    let after = batch.get(Table::Heads, "a/1");
    batch.settle(&Writer::new(&connection, &cache, &Stopped));
    let answers = [before, after].map(|mut answer| answer.try_recv().unwrap());
    assert_eq!(answers, [Ok(None), Ok(Some("\"x\"".to_owned()))]);
    assert_eq!(effect(put), None);
}

#[test]
fn memory_shows_a_row_only_once_it_is_committed() {
    let (connection, cache) = tables();
    let cache: &'static RowCache = Box::leak(Box::new(cache));
    let batch = Batch::default();
    batch.put(Table::Tenants, "acme", "x".to_owned());
    let mut early = batch.add(|_| Ok(Decision::unchanged(peek(cache, "acme"))));
    batch.settle(&Writer::new(&connection, cache, &Stopped));
    assert_eq!(early.try_recv().unwrap(), Ok(None));
    assert_eq!(peek(cache, "acme"), Some("\"x\"".to_owned()));
}

#[test]
fn a_full_disk_fails_the_whole_batch_and_the_writer_works_again_when_there_is_room() {
    let (connection, cache) = tables();
    let writer = Writer::new(&connection, &cache, &Stopped);
    let pages: u32 = connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();

    let batch = Batch::default();
    let small = batch.put(Table::Tenants, "acme", "x".to_owned());
    let large = batch.put(Table::Heads, "a/1", "x".repeat(100_000));
    let looked = batch.get(Table::Tenants, "acme");
    batch.settle(&writer);
    for failed in [effect(small), effect(large), effect(looked)] {
        assert_eq!(failed, Some(Effect::StorageFull));
    }
    assert_eq!(peek(&cache, "acme"), None);

    connection.pragma_update_and_check(None, "max_page_count", pages + 100, |_| Ok(())).unwrap();
    let batch = Batch::default();
    let mut small = batch.get(Table::Tenants, "acme");
    let large = batch.put(Table::Heads, "a/1", "x".repeat(100_000));
    batch.settle(&writer);
    assert_eq!(small.try_recv().unwrap(), Ok(None));
    assert_eq!(effect(large), None);
}

/// The only way to have a commit itself turned down without breaking the disk: a foreign key checked at its end.
#[test]
fn a_commit_that_is_turned_down_did_not_happen_and_the_next_one_may() {
    let (connection, cache) = tables();
    connection
        .execute_batch(
            "PRAGMA foreign_keys = ON;
             CREATE TABLE owed (id INTEGER PRIMARY KEY,
                                other INTEGER REFERENCES owed (id) DEFERRABLE INITIALLY DEFERRED);
             CREATE TRIGGER owing AFTER INSERT ON active BEGIN INSERT INTO owed VALUES (1, 2); END;",
        )
        .unwrap();
    let writer = Writer::new(&connection, &cache, &Stopped);

    let batch = Batch::default();
    let tenant = batch.put(Table::Tenants, "acme", "x".to_owned());
    let turned_down = batch.put(Table::Active, "acme/1", "x".to_owned());
    batch.settle(&writer);
    assert_eq!(effect(tenant), Some(Effect::NotDone));
    assert_eq!(effect(turned_down), Some(Effect::NotDone));
    assert_eq!(peek(&cache, "acme"), None);

    let batch = Batch::default();
    let mut active = batch.get(Table::Active, "acme/1");
    let tenant = batch.put(Table::Tenants, "acme", "x".to_owned());
    batch.settle(&writer);
    assert_eq!(active.try_recv().unwrap(), Ok(None));
    assert_eq!(effect(tenant), None);
    assert_eq!(peek(&cache, "acme"), Some("\"x\"".to_owned()));
}

#[test]
fn a_commit_that_may_have_reached_the_disk_is_unknown() {
    let failed = |code| Error::SqliteFailure(ffi::Error::new(code), None);
    assert_eq!(effect_of(&failed(ffi::SQLITE_IOERR_FSYNC), false), Effect::Unknown);
    assert_eq!(effect_of(&failed(ffi::SQLITE_NOMEM), false), Effect::Unknown);
    assert_eq!(effect_of(&failed(ffi::SQLITE_FULL), false), Effect::StorageFull);
    assert_eq!(effect_of(&failed(ffi::SQLITE_BUSY), true), Effect::NotDone);
}
