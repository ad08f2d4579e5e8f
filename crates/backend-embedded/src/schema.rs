//! The format of the file: whose it is, which version it has, and how an older one becomes the latest.

use std::path::Path;

use interlock_model::Timestamp;
use rusqlite::{Connection, Error, ErrorCode, Transaction, TransactionBehavior};

use crate::{OpenError, connection};

/// "ILCK": says in the header of the file that it is ours.
const APPLICATION_ID: i32 = 0x494c_434b;

/// One step from a version of the format to the next. Once released, a step never changes: files that took it exist.
struct Migration {
    /// Their names are written out, because the list of tables in the code keeps growing.
    tables: &'static [&'static str],
    /// What becomes of rows that exist.
    update: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration {
        tables: &[
            "tenants",
            "system",
            "workflow_heads",
            "workflow_listing",
            "workflow_versions",
            "idempotency_keys",
            "starts",
            "heads",
            "steps",
            "deleted_runs",
            "active",
            "ready",
            "inbox",
            "run_leases",
            "timers",
            "timeline",
            "jobs",
            "job_listing",
            "queue",
            "job_leases",
            "job_expiries",
            "approvals",
            "open_approvals",
            "dead_letters",
            "workers",
            "api_keys",
        ],
        update: "",
    },
    // A dead letter now has its kind, and how often its job was tried.
    Migration {
        tables: &["registry"],
        update: "UPDATE dead_letters SET value = json_object(
            'job', value ->> 'job', 'code', 'worker_lost', 'reason', value ->> 'reason',
            'attempts', CAST(substr(value ->> 'job', instr(value ->> 'job', '@') + 1) AS INTEGER),
            'buried_at', value -> 'at')",
    },
    Migration {
        tables: &["locks", "lock_line", "lock_history", "lock_listing", "lock_sweeps", "lock_tallies"],
        update: "",
    },
    Migration { tables: &["documents", "figures"], update: "" },
    Migration { tables: &["put_off", "put_off_due"], update: "" },
    // A tenant counts its dead letters. '0' is the character after '/'.
    Migration {
        tables: &[],
        update: "UPDATE tenants SET value = json_set(value, '$.dead_letters', (
            SELECT count(*) FROM dead_letters
            WHERE dead_letters.key >= tenants.key || '/' AND dead_letters.key < tenants.key || '0'))",
    },
    Migration { tables: &["held", "held_due", "throttles"], update: "" },
    Migration { tables: &["job_progress"], update: "" },
    // A tenant counts its workflows and workers, and the installation its tenants.
    Migration {
        tables: &[],
        update: "UPDATE tenants SET value = json_set(value,
                '$.workflows', (SELECT count(*) FROM workflow_heads
                    WHERE workflow_heads.key >= tenants.key || '/' AND workflow_heads.key < tenants.key || '0'),
                '$.workers', (SELECT count(*) FROM workers
                    WHERE workers.key >= tenants.key || '/' AND workers.key < tenants.key || '0'));
            INSERT INTO system (key, value) SELECT 'tenants', CAST(count(*) AS TEXT) FROM tenants HAVING count(*) > 0",
    },
    Migration {
        tables: &["limits", "limit_groups", "limit_slots", "run_slots", "run_queue", "limit_timers"],
        update: "",
    },
    Migration {
        tables: &[
            "budgets",
            "budget_ledgers",
            "budget_permits",
            "budget_due",
            "budget_ended",
            "budget_events",
        ],
        update: "",
    },
    Migration { tables: &["fair_queue", "fair_groups", "fair_turns", "run_means"], update: "" },
    Migration { tables: &["children", "child_starts", "children_due"], update: "" },
    Migration { tables: &["debounced_runs"], update: "" },
    Migration { tables: &["run_events", "event_tallies"], update: "" },
    Migration { tables: &["event_waiters", "keyed_events", "kept_events", "events_due"], update: "" },
    Migration { tables: &["queue_timeouts"], update: "" },
    Migration { tables: &["budget_queue"], update: "" },
];

impl Migration {
    fn apply(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        for table in self.tables {
            transaction.execute_batch(&format!(
                "CREATE TABLE {table} (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"
            ))?;
        }
        transaction.execute_batch(self.update)
    }
}

/// The version that the last migration leads to.
pub(crate) fn latest() -> u32 {
    u32::try_from(MIGRATIONS.len()).expect("migrations are few")
}

/// Refuses a file that is not ours, or that a newer Interlock wrote, and changes nothing in it.
pub(crate) fn check(file: &Path) -> Result<(), OpenError> {
    if std::fs::metadata(file).is_ok_and(|file| file.len() > 0) {
        let found = look(file).map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => OpenError::Foreign { file: file.to_owned() },
            Some(ErrorCode::DatabaseCorrupt) => {
                OpenError::Damaged { file: file.to_owned(), what: error.to_string() }
            }
            _ => refused(file, "read the version")(error),
        })?;
        let version = found.version().ok_or_else(|| OpenError::Foreign { file: file.to_owned() })?;
        if version > latest() {
            return Err(OpenError::Newer { found: version, known: latest() });
        }
    }
    Ok(())
}

/// Brings the file to the latest version, each step in a transaction of its own.
pub(crate) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let done: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for (version, migration) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > done) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        migration.apply(&transaction)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
        tracing::info!(version, "database migrated");
    }
    Ok(())
}

/// No other process is running, so no instance holds a run, and nothing waits for a lock. The fences keep growing: the
/// store still rejects a former holder. What is left of a run lease says that its holder did not survive the turn.
pub(crate) fn end_former_processes(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let expire =
        "UPDATE run_leases SET value = json_set(value, '$.expires_at', min(value ->> 'expires_at', ?1))
        WHERE json_valid(value)";
    connection.execute(expire, [i64::try_from(now.as_millis()).unwrap_or(i64::MAX)])?;
    // The next verb on the lock removes waiters that are offline.
    connection.execute("UPDATE lock_line SET value = json_set(value, '$.alive_until', 0)", []).map(drop)
}

pub(crate) fn refused(file: &Path, action: &'static str) -> impl FnOnce(Error) -> OpenError {
    move |source| OpenError::Database { file: file.to_owned(), action, source }
}

struct Found {
    application_id: i32,
    user_version: i32,
    objects: i64,
}

impl Found {
    /// The version, if the file is ours. One in which nothing was made is: we died before the first migration.
    fn version(&self) -> Option<u32> {
        let untouched = self.application_id == 0 && self.user_version == 0 && self.objects == 0;
        if untouched || self.application_id == APPLICATION_ID {
            u32::try_from(self.user_version).ok()
        } else {
            None
        }
    }
}

/// Looks with a connection that cannot write.
fn look(file: &Path) -> rusqlite::Result<Found> {
    let connection = connection::reader(file)?;
    Ok(Found {
        application_id: connection.pragma_query_value(None, "application_id", |row| row.get(0))?,
        user_version: connection.pragma_query_value(None, "user_version", |row| row.get(0))?,
        objects: connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?,
    })
}

#[cfg(test)]
mod tests {
    use interlock_backend::local::Table;

    use super::*;

    #[test]
    fn the_migrations_make_every_table_of_the_contract() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        for table in Table::ALL {
            let count = format!("SELECT count(*) FROM {}", table.name());
            let rows: i64 = connection.query_row(&count, [], |row| row.get(0)).unwrap();
            assert_eq!(rows, 0, "{}", table.name());
        }
    }

    #[test]
    fn a_dead_letter_of_version_one_is_read_as_one_of_today() {
        let mut connection = Connection::open_in_memory().unwrap();
        let transaction = connection.transaction().unwrap();
        MIGRATIONS[0].apply(&transaction).unwrap();
        let job = "01920000-0000-7000-8000-000000000000:work@10";
        let letter =
            format!(r#"{{"job":"{job}","reason":"10 dispatches lost their worker","at":1794700800000}}"#);
        transaction.execute("INSERT INTO dead_letters VALUES ('acme/j', ?1)", [letter]).unwrap();
        MIGRATIONS[1].apply(&transaction).unwrap();
        let value: String =
            transaction.query_row("SELECT value FROM dead_letters", [], |row| row.get(0)).unwrap();
        let letter: interlock_model::dead_letter::DeadLetter = serde_json::from_str(&value).unwrap();
        assert_eq!((letter.job.to_string(), letter.attempts), (job.to_owned(), 10));
        assert_eq!(letter.buried_at, interlock_model::Timestamp::from_millis(1_794_700_800_000));
    }

    #[test]
    fn dead_letters_of_an_older_file_are_counted() {
        let mut connection = Connection::open_in_memory().unwrap();
        let transaction = connection.transaction().unwrap();
        MIGRATIONS[0].apply(&transaction).unwrap();
        let tenant = serde_json::to_string(&interlock_model::tenant::Tenant::default()).unwrap();
        for id in ["acme", "acme-2", "none"] {
            transaction.execute("INSERT INTO tenants VALUES (?1, ?2)", [id, &tenant]).unwrap();
        }
        for key in ["acme/a", "acme/b", "acme-2/a"] {
            transaction.execute("INSERT INTO dead_letters VALUES (?1, '{}')", [key]).unwrap();
        }
        MIGRATIONS[5].apply(&transaction).unwrap();
        let read = |id: &str| {
            let row = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
            let value = transaction.query_row("SELECT value FROM tenants WHERE key = ?1", [id], row).unwrap();
            serde_json::from_str::<interlock_model::tenant::Tenant>(&value).unwrap().dead_letters
        };
        assert_eq!(["acme", "acme-2", "none"].map(read), [2, 1, 0]);
    }

    #[test]
    fn a_migration_is_done_once() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        connection.execute("INSERT INTO heads VALUES ('a/1', '{}')", []).unwrap();
        migrate(&mut connection).unwrap();
        let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(version, latest());
        let rows: i64 = connection.query_row("SELECT count(*) FROM heads", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 1);
    }
}
