//! A master that Sentinels name.

use interlock_backend::Effect;
use interlock_poll::until;
use interlock_servers::Sentinel;

use super::{get, open, refusal, set, settings};

#[tokio::test]
async fn the_master_is_found_and_its_successor_after_it_died() {
    let mut sentinel = Sentinel::start().await.unwrap();
    let connection = open(&sentinel.url()).await;
    assert!(!connection.is_cluster());
    set(&connection, "before", "1").await.unwrap();
    sentinel.primary().kill().await.unwrap();
    until("the loss is noticed", async || !connection.is_connected()).await;
    let error = set(&connection, "during", "1").await.unwrap_err();
    assert_eq!(error.effect, Effect::NotDone, "{error}");
    until("the successor is used", async || set(&connection, "after", "1").await.is_ok()).await;
    assert_eq!(sentinel.replica().command(&["GET", "after"]).await.unwrap(), "1");
    assert!(get(&connection, "during").await.unwrap().is_none());
    assert_eq!(connection.store_changes(), 1);
}

#[tokio::test]
async fn a_name_that_no_sentinel_knows_is_refused() {
    let sentinel = Sentinel::start().await.unwrap();
    let url = sentinel.url().replace("/main", "/other");
    let refused = refusal(settings(&url)).await;
    assert!(refused.contains("does not know a master named other"), "{refused}");
    // Sentinels without a login are asked without the one that is meant for Redis.
    let with_login = sentinel.url().replace("://", "://app:secret@");
    let refused = refusal(settings(&with_login)).await;
    assert!(refused.contains("refuses the user or the password") && !refused.contains("secret"), "{refused}");
}
