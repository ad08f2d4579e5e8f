//! The ceiling of the store: the rows of admissions, 64 to a transaction, with nothing around them.

use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::Connection;

use crate::load::{Measured, micros};

const BATCH: u64 = 64;
const TABLES: [&str; 9] =
    ["tenants", "active", "starts", "heads", "steps", "timeline", "jobs", "queue", "job_listing"];

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

/// Rows of the same keys and sizes as an admission without an idempotency key writes, with its first dispatch.
fn admit(transaction: &rusqlite::Transaction<'_>, number: u64) -> rusqlite::Result<()> {
    let id = format!("01992f0c-{:04x}-7{:03x}-8000-{number:012x}", number >> 24, number >> 12 & 0xfff);
    let run = format!("default/{id}");
    let job = format!("{id}:work@1");
    let at = 1_794_700_800_000 + number / 16;
    let tenant = format!(
        r#"{{"limits":{{"runs_max":1000000000}},"revision":1,"runs_active":{number},{}"fence":1794700800000000}}"#,
        r#""slot_flow":{"since":null,"releases":0,"time":0},"#,
    );
    let start = format!(
        r#"{{"run":"{id}","tenant":"default","workflow":"bench","workflow_version":1,{}"created_at":{at}}}"#,
        r#""input":{"n":42,"question":"what is the answer?"},"origin":"request","#,
    );
    let head = format!(r#"{{"status":"running","version":0,"fence":0,"started_at":{at},"updated_at":{at}}}"#);
    let step = format!(
        r#"{{"status":"running","attempts":1,"failures":0,"losses":0,"job":"{job}","job_open":true,"started_at":{at}}}"#
    );
    let new = format!(
        r#"{{"new":{{"id":"{job}","workflow":"bench","topic":"bench",{}}},"created_at":{at}}}"#,
        r#""input":{"n":42,"question":"what is the answer?"}"#,
    );
    let dispatched = format!(
        r#"{{"at":{at},"kind":"step_dispatched","step":"work","job":"{job}","data":{{"topic":"bench"}}}}"#
    );
    let rows = [
        ("starts", run.clone(), start),
        (
            "timeline",
            format!("{run}/0000000001"),
            format!(r#"{{"at":{at},"kind":"run_status","status":"pending"}}"#),
        ),
        ("heads", run.clone(), head),
        ("steps", format!("{run}/work"), step),
        (
            "timeline",
            format!("{run}/0000000002"),
            format!(r#"{{"at":{at},"kind":"run_status","status":"running"}}"#),
        ),
        ("timeline", format!("{run}/0000000003"), dispatched),
        ("queue", format!("default/bench/{at:015}/{job}"), String::new()),
        ("job_listing", format!("default/{at:015}/{job}"), String::new()),
        ("jobs", format!("default/{job}"), new),
        ("active", run, String::new()),
        ("tenants", "default".to_owned(), tenant),
    ];
    for (table, key, value) in rows {
        let insert = format!(
            "INSERT INTO {table} VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value"
        );
        transaction.prepare_cached(&insert)?.execute((key, value))?;
    }
    Ok(())
}
