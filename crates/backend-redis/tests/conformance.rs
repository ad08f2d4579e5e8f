//! The store on one Redis server keeps every rule, and answers like the reference.

mod on_redis;

use interlock_servers::{AppendOnly, Redis, RedisOptions};
use on_redis::OnRedis;
use tokio::sync::OnceCell;

interlock_backend::conformance_suite!(OnRedis::at(&url().await).await);

/// One server for all tests: each has its own prefix.
async fn url() -> String {
    static SERVER: OnceCell<Redis> = OnceCell::const_new();
    let options = RedisOptions { append_only: AppendOnly::Off, ..RedisOptions::default() };
    let start = async || Redis::start(options).await.expect("the server starts");
    SERVER.get_or_init(start).await.url()
}

#[tokio::test]
async fn random_calls_are_answered_like_the_reference() {
    on_redis::answers_like_the_reference(&url().await, 0..12, 400).await;
}
