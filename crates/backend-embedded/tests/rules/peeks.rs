use interlock_backend::StoreError;
use interlock_backend::local::{Decision, Executor, Table, View};
use interlock_backend_embedded::EmbeddedTables;

use crate::rows::{fresh, open, put};

fn look(table: Table, key: &'static str) -> impl Fn(&dyn View) -> Result<Option<String>, StoreError> {
    move |view| view.get(table, key)
}

fn peek<R>(tables: &EmbeddedTables, look: impl Fn(&dyn View) -> Result<R, StoreError>) -> Option<R> {
    tables.peek(&|view, _| look(view).map(Decision::unchanged))
}

#[tokio::test]
async fn a_peek_sees_what_was_answered_and_what_was_there_at_the_opening() {
    let (tables, folder) = fresh();
    for table in [Table::Tenants, Table::System, Table::WorkflowHeads] {
        assert_eq!(peek(&tables, look(table, "acme")), Some(None));
        put(&tables, table, "acme", 1).await.unwrap();
        assert_eq!(peek(&tables, look(table, "acme")), Some(Some("1".to_owned())));
    }
    drop(tables);
    let tables = open(folder.path()).unwrap();
    for table in [Table::Tenants, Table::System, Table::WorkflowHeads] {
        assert_eq!(peek(&tables, look(table, "acme")), Some(Some("1".to_owned())));
    }
}

#[tokio::test]
async fn a_peek_at_anything_else_is_no_answer() {
    let (tables, _folder) = fresh();
    put(&tables, Table::Heads, "acme/run", 1).await.unwrap();
    assert_eq!(peek(&tables, look(Table::Heads, "acme/run")), None);
}
