//! Names and types that operators and other programs go by.

use super::{open, server, started};

#[tokio::test]
async fn the_active_set_and_the_idempotency_key_stand_where_the_contract_says() {
    let server = server().await;
    let store = open(&server.url()).await;
    let run = started(&store, 1, false).await.to_string();
    let active = "wf:runs:active:{acme}";
    assert_eq!(server.command(&["TYPE", active]).await.unwrap(), "set");
    assert_eq!(server.command(&["SISMEMBER", active, &run]).await.unwrap(), "1");
    let kept = server.command(&["GET", "wf:run:idempotency:{acme}:deploy:key-1"]).await.unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["run"], run);
}
