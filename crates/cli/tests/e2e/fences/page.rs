//! The page on fences says what the examples do.

use interlock_servers::{Port, PostgresDatabase};

use super::super::server::Server;
use super::super::walk_through::{blocks, read, run};

const PAGE: &str = "docs/concepts/fences.md";

#[test]
fn the_page_shows_the_statements_of_the_example() {
    let shown = blocks(&read(PAGE), "sql");
    let statements = ["table.sql", "take.sql", "write.sql"];
    let statements = statements.map(|file| read(&format!("examples/fences/postgres/{file}")));
    assert_eq!(shown[1..], statements);
}

#[tokio::test]
async fn the_commands_of_the_page_store_a_report_in_three_resources() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("state"));
    let database = PostgresDatabase::create().await.unwrap();
    let reserved = Port::reserve().unwrap();
    let port = reserved.number();
    let commands = blocks(&read(PAGE), "sh walk-through").join("\n");
    let commands = commands.replace("127.0.0.1:8090", &format!("127.0.0.1:{port}"));
    let commands = commands.replace("service.db 8090", &format!("service.db {port}"));
    let path = |name: &str| folder.path().join(name).display().to_string();
    let commands =
        commands.replace("/tmp/reports", &path("reports")).replace("/tmp/service", &path("service"));
    let around = format!(
        "export PATH=\"$PWD/target/release:{}:$PATH\" DATABASE_URL='{}'\n",
        database.programs().display(),
        database.url()
    );

    let (worked, printed) = run(&server, &format!("{around}{commands}"));

    assert!(worked, "{printed}");
    assert!(printed.contains("succeeded"), "{printed}");
    // From the table, from the service, and from the file.
    assert_eq!(printed.matches(r#"{"text":"the quick brown fox"}"#).count(), 3, "{printed}");
    assert!(printed.contains("ETag: \"2\""), "{printed}");
}
