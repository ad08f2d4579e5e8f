//! The store on a Redis Cluster keeps every rule, and answers like the reference.

mod on_redis;

use interlock_servers::RedisCluster;
use on_redis::OnRedis;
use tokio::sync::OnceCell;

interlock_backend::conformance_suite!(OnRedis::at(&url().await).await);

/// One cluster for all tests: each has its own prefix.
async fn url() -> String {
    static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();
    let start = async || RedisCluster::start(3).await.expect("the cluster starts");
    CLUSTER.get_or_init(start).await.url()
}

#[tokio::test]
async fn random_calls_are_answered_like_the_reference() {
    on_redis::answers_like_the_reference(&url().await, 100..112, 400).await;
}
