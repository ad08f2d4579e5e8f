//! A table of a real database server.

use std::path::PathBuf;

use interlock_servers::PostgresDatabase;

use super::super::walk_through::{blocks, read};
use super::{FencedResource, Stored, Write, example, printed, rules};

struct Table {
    database: PostgresDatabase,
}

impl Table {
    async fn start() -> Self {
        let database = PostgresDatabase::create().await.unwrap();
        database.script(&read("examples/fences/postgres/table.sql")).await.unwrap();
        Self { database }
    }

    /// Runs a statement of the example with these variables. It answers a version, or no row.
    async fn statement(&self, file: &str, variables: &[(&str, &str)]) -> Option<u64> {
        let program = self.database.programs().join("psql");
        let mut client = tokio::process::Command::new(&program);
        client.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
        for (name, value) in variables {
            client.arg(format!("--set={name}={value}"));
        }
        client.arg("--file").arg(example("postgres").join(file)).arg(self.database.url());
        let answer = printed(&program, &client.output().await.unwrap());
        (!answer.is_empty()).then(|| answer.parse().unwrap())
    }
}

impl FencedResource for Table {
    fn worker(&self) -> (PathBuf, Vec<(&'static str, String)>) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = format!("{}:{}", self.database.programs().display(), path.display());
        (example("postgres"), vec![("DATABASE_URL", self.database.url().to_owned()), ("PATH", path)])
    }

    async fn take(&self, item: &str, fence: u64) -> Option<u64> {
        self.statement("take.sql", &[("item", item), ("fence", &fence.to_string())]).await
    }

    async fn write(&self, Write { item, fence, version, body }: Write<'_>) -> Option<u64> {
        let (fence, version) = (fence.to_string(), version.to_string());
        let variables = [("item", item), ("fence", &fence), ("version", &version), ("body", body)];
        self.statement("write.sql", &variables).await
    }

    async fn stored(&self, item: &str) -> Stored {
        let row = format!("SELECT version, body FROM reports WHERE item = '{item}'");
        let row = self.database.script(&row).await.unwrap();
        let (version, body) = row.split_once('|').unwrap();
        Stored::new(body, version.parse().unwrap())
    }
}

#[tokio::test]
async fn a_table_accepts_the_holders_writes_in_order_and_refuses_late_ones() {
    rules::accepts_the_holders_writes_in_order_and_refuses_late_ones(&Table::start().await).await;
}

#[tokio::test]
async fn a_row_with_many_writers_keeps_the_write_with_the_largest_fence() {
    rules::keeps_the_write_with_the_largest_fence(&Table::start().await).await;
}

#[tokio::test]
async fn a_worker_that_was_paused_past_its_lease_cannot_change_its_row() {
    rules::is_not_changed_by_a_worker_that_was_paused_past_its_lease(&Table::start().await).await;
}

/// Writes `first`, then `second`, then `first` again, as a network may deliver it, all under the fence of one holder.
/// Returns the row after each write.
async fn three_writes_of_one_holder(database: &PostgresDatabase, guard: &str) -> [String; 3] {
    let script = format!(
        "CREATE TEMPORARY TABLE workflow_runs (run_id text, payload text, fence_token bigint, updated_at timestamptz);
        INSERT INTO workflow_runs VALUES ('run', 'before', 9);
        PREPARE guard (text, text, bigint) AS {guard};
        EXECUTE guard ('run', 'first', 10);
        SELECT payload FROM workflow_runs;
        EXECUTE guard ('run', 'second', 10);
        SELECT payload FROM workflow_runs;
        EXECUTE guard ('run', 'first', 10);
        SELECT payload FROM workflow_runs;"
    );
    let rows = database.script(&script).await.unwrap();
    let lines: Vec<_> = rows.lines().map(str::to_owned).collect();
    lines.try_into().expect("three rows were read")
}

#[tokio::test]
async fn l22_a_guard_that_wants_a_larger_fence_refuses_the_holders_own_second_write() {
    let database = PostgresDatabase::create().await.unwrap();
    let guard = blocks(&read("docs/concepts/fences.md"), "sql").remove(0);
    assert!(guard.contains("$3 > fence_token"), "the page shows another guard first: {guard}");
    let guard = guard.trim().trim_end_matches(';');
    assert_eq!(three_writes_of_one_holder(&database, guard).await, ["first", "first", "first"]);

    // An equal fence alone is not enough: then the duplicate of the first write undoes the second.
    let guard = guard.replace("$3 > fence_token", "$3 >= fence_token");
    assert_eq!(three_writes_of_one_holder(&database, &guard).await, ["first", "second", "first"]);
}
