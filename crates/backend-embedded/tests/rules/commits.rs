use std::sync::Arc;

use interlock_backend::local::{Changes, Decision, Executor, Table, View};
use interlock_backend::{Effect, StoreError};

use crate::rows::{fresh, get, put};

#[tokio::test]
async fn a_decision_that_fails_changes_nothing() {
    let (tables, _folder) = fresh();
    put(&tables, Table::Heads, "a/1", 1).await.unwrap();
    let refused: Result<(), _> = tables
        .write("refuse", |view, _| {
            assert_eq!(view.get(Table::Heads, "a/1")?.as_deref(), Some("1"));
            Err(StoreError::Conflict("no".to_owned()))
        })
        .await;
    assert_eq!(refused, Err(StoreError::Conflict("no".to_owned())));
    assert_eq!(get(&tables, Table::Heads, "a/1").await, Some(1));
}

#[tokio::test]
async fn the_writes_of_a_decision_count_in_their_order() {
    let (tables, _folder) = fresh();
    let decide = |_: &dyn View, _| {
        let mut changes = Changes::default();
        changes.put(Table::Heads, "a/1", &1);
        changes.put(Table::Heads, "a/1", &2);
        changes.mark(Table::Active, "a/1");
        changes.delete(Table::Active, "a/1");
        changes.delete(Table::Active, "a/was never there");
        Ok(Decision { answer: (), changes })
    };
    tables.write("write twice", decide).await.unwrap();
    assert_eq!(get(&tables, Table::Heads, "a/1").await, Some(2));
    assert_eq!(get(&tables, Table::Active, "a/1").await, None);
}

#[tokio::test]
async fn a_decision_that_panics_is_an_error_and_the_writer_goes_on() {
    let (tables, _folder) = fresh();
    let answer: Result<(), _> = tables.write("break", |_, _| panic!("a bug in a test")).await;
    let Err(StoreError::Unavailable { effect: Effect::NotDone, reason, .. }) = answer else {
        panic!("{answer:?}");
    };
    assert!(reason.contains("a bug in a test"), "{reason}");
    put(&tables, Table::Heads, "a/1", 1).await.unwrap();
    assert_eq!(get(&tables, Table::Heads, "a/1").await, Some(1));
}

#[tokio::test]
async fn a_look_that_panics_is_an_error_and_the_readers_go_on() {
    let (tables, _folder) = fresh();
    put(&tables, Table::Heads, "a/1", 1).await.unwrap();
    for _ in 0..5 {
        let answer: Result<(), _> = tables
            .read("break", |view, _| {
                view.get(Table::Heads, "a/1")?;
                panic!("a bug in a test")
            })
            .await;
        assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{answer:?}");
        assert_eq!(get(&tables, Table::Heads, "a/1").await, Some(1));
    }
}

#[tokio::test]
async fn a_decision_is_carried_out_even_if_its_caller_goes_away() {
    let (tables, _folder) = fresh();
    {
        let asked = std::pin::pin!(put(&tables, Table::Heads, "a/1", 1));
        tokio::select! {
            biased;
            _ = asked => {}
            () = std::future::ready(()) => {}
        }
    }
    put(&tables, Table::Heads, "a/2", 2).await.unwrap();
    assert_eq!(get(&tables, Table::Heads, "a/1").await, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_sees_every_answer_that_was_given_before_it() {
    let (tables, _folder) = fresh();
    let tables = Arc::new(tables);
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let tables = Arc::clone(&tables);
            tokio::spawn(async move {
                let key = format!("a/{task}");
                for value in 0..50 {
                    put(&tables, Table::Heads, &key, value).await.unwrap();
                    assert_eq!(get(&tables, Table::Heads, &key).await, Some(value));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_at_the_same_time_lose_nothing() {
    let (tables, _folder) = fresh();
    let tables = Arc::new(tables);
    let count = |view: &dyn View, _| {
        let counted = view.get(Table::System, "count")?.map_or(0, |value| value.parse::<u64>().unwrap());
        let mut changes = Changes::default();
        changes.put(Table::System, "count", &(counted + 1));
        Ok(Decision { answer: counted, changes })
    };
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let tables = Arc::clone(&tables);
            tokio::spawn(async move {
                for _ in 0..20 {
                    tables.write("count", count).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(get(&tables, Table::System, "count").await, Some(64 * 20));
}
