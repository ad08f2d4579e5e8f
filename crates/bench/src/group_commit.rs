//! The ceiling of the store: the rows of admissions, 64 to a transaction, with nothing around them.

use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::Connection;

use crate::load::{Measured, micros};

const BATCH: u64 = 64;
const TABLES: [&str; 6] = ["tenants", "active", "starts", "heads", "ready", "timeline"];

/// Admissions per second that bare `SQLite` commits, each as durable as ours.
pub(crate) fn measure(time: Duration) -> Result<Measured> {
    let folder = tempfile::TempDir::new()?;
    let mut connection = Connection::open(folder.path().join("bare.db"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    for table in TABLES {
        connection.execute_batch(&format!(
            "CREATE TABLE {table} (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"
        ))?;
    }
    let began = Instant::now();
    let mut batches = Vec::new();
    let mut number = 0_u64;
    while began.elapsed() < time {
        let batch_began = Instant::now();
        let transaction = connection.transaction()?;
        for _ in 0..BATCH {
            number += 1;
            admit(&transaction, number)?;
        }
        transaction.commit()?;
        batches.push(micros(batch_began));
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of seconds are far below 2^52")]
    let per_second = number as f64 / began.elapsed().as_secs_f64();
    batches.sort_unstable();
    let at = |share: usize| batches[(batches.len() * share / 100).min(batches.len() - 1)];
    Ok(Measured { per_second, p50_us: at(50), p99_us: at(99) })
}

/// Rows of the same keys and sizes as an admission without an idempotency key writes.
fn admit(transaction: &rusqlite::Transaction<'_>, number: u64) -> rusqlite::Result<()> {
    let run =
        format!("default/01992f0c-{:04x}-7{:03x}-8000-{number:012x}", number >> 24, number >> 12 & 0xfff);
    let tenant = format!(
        r#"{{"limits":{{"runs_max":1000000000}},"revision":1,"runs_active":{number},{}"fence":1794700800000000}}"#,
        r#""slot_flow":{"freed_at":null,"interval_ms":null},"#,
    );
    let start = format!(
        r#"{{"run":"{run}","tenant":"default","workflow":"bench","workflow_version":1,{}"created_at":1794700800000}}"#,
        r#""input":{"n":42,"question":"what is the answer?"},"origin":"request","#,
    );
    let head = r#"{"status":"pending","version":0,"fence":0,"updated_at":1794700800000}"#;
    let event = r#"{"at":1794700800000,"kind":"run_status","status":"pending"}"#;
    let event_key = format!("{run}/0000000001");
    let rows = [
        ("active", run.as_str(), ""),
        ("tenants", "default", tenant.as_str()),
        ("starts", run.as_str(), start.as_str()),
        ("heads", run.as_str(), head),
        ("ready", run.as_str(), ""),
        ("timeline", event_key.as_str(), event),
    ];
    for (table, key, value) in rows {
        let insert = format!(
            "INSERT INTO {table} VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value"
        );
        transaction.prepare_cached(&insert)?.execute((key, value))?;
    }
    Ok(())
}
