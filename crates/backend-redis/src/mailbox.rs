//! Inputs and results of workers on the bus, where the public SDK looks for them.

use async_trait::async_trait;
use interlock_backend::mailbox::Mailbox;
use interlock_backend::{Effect, StoreError};
use interlock_model::{JobId, RunId, TenantId};
use redis::{Cmd, Value};

use crate::connect::{Connection, SendError};

const SCHEME: &str = "redis://";

/// An output may be so large, as over HTTP.
const RESULT_MAX: usize = 2 * 1024 * 1024;

/// Keys that one command removes.
const KEYS_A_COMMAND: usize = 500;

/// The mailbox in Redis: `ctx:<job>` in, `res:<job>` out, and whose run it is.
#[derive(Debug, Clone)]
pub struct RedisMailbox {
    store: Connection,
    blobs: Connection,
}

impl RedisMailbox {
    /// `blobs` is the Redis that the workers are configured with; usually the same as the store's.
    pub fn new(store: Connection, blobs: Connection) -> Self {
        Self { store, blobs }
    }

    fn pointer_key(&self, run: RunId) -> String {
        format!("{}wf:run:tenant:{run}", self.store.key_prefix())
    }

    fn input_key(&self, job: &JobId) -> String {
        format!("{}ctx:{job}", self.blobs.key_prefix())
    }

    /// Where a result may lie: the SDK knows of no prefix.
    fn result_keys(&self, job: &JobId) -> Vec<String> {
        let prefix = self.blobs.key_prefix();
        let prefixed = (!prefix.is_empty()).then(|| format!("{prefix}res:{job}"));
        [format!("res:{job}")].into_iter().chain(prefixed).collect()
    }

    /// The key that a worker points to. Only the job's own result is read: a pointer is a stranger's word, and the same
    /// Redis holds the results of other tenants and everything else.
    fn key_of<'a>(&self, job: &JobId, pointer: &'a str) -> Result<&'a str, StoreError> {
        let key = pointer.strip_prefix(SCHEME);
        key.filter(|key| self.result_keys(job).iter().any(|own| own == key)).ok_or_else(|| {
            let pointer: String = pointer.chars().take(256).collect();
            StoreError::Conflict(format!(
                "{pointer:?} does not point to the result of the job: it must be {SCHEME}res:{job}"
            ))
        })
    }
}

#[async_trait]
impl Mailbox for RedisMailbox {
    async fn point(&self, run: RunId, tenant: &TenantId) -> Result<(), StoreError> {
        let command = command("SET", &[&self.pointer_key(run), tenant.as_str()]);
        self.store.send(&command, true).await.map(drop).map_err(unavailable("record the tenant of a run"))
    }

    async fn tenant_of(&self, run: RunId) -> Result<Option<TenantId>, StoreError> {
        const ACTION: &str = "read the tenant of a run";
        let key = self.pointer_key(run);
        let answer = self.store.send(&command("GET", &[&key]), false).await.map_err(unavailable(ACTION))?;
        let Some(bytes) = bytes(answer, ACTION)? else { return Ok(None) };
        let damaged =
            |reason: String| StoreError::Damaged { table: "tenant of run", key: key.clone(), reason };
        let name = String::from_utf8(bytes).map_err(|error| damaged(error.to_string()))?;
        name.parse().map(Some).map_err(|error| damaged(format!("{error}")))
    }

    async fn put_input(&self, job: &JobId, input: &str) -> Result<String, StoreError> {
        let key = self.input_key(job);
        let command = command("SET", &[&key, input]);
        self.blobs.send(&command, true).await.map_err(unavailable("store an input"))?;
        Ok(format!("{SCHEME}{key}"))
    }

    async fn result(&self, job: &JobId, pointer: &str) -> Result<Option<Vec<u8>>, StoreError> {
        const ACTION: &str = "read a result";
        // One byte more than is allowed, to know of it without reading the rest.
        let range = command("GETRANGE", &[self.key_of(job, pointer)?, "0", &RESULT_MAX.to_string()]);
        let answer = self.blobs.send(&range, false).await.map_err(unavailable(ACTION))?;
        let found = bytes(answer, ACTION)?.filter(|found| !found.is_empty());
        match found {
            Some(found) if found.len() > RESULT_MAX => {
                Err(StoreError::Conflict(format!("the result is larger than {RESULT_MAX} bytes")))
            }
            found => Ok(found),
        }
    }

    async fn forget(&self, run: RunId, jobs: &[JobId]) -> Result<(), StoreError> {
        let blobs = jobs.iter().flat_map(|job| [vec![self.input_key(job)], self.result_keys(job)].concat());
        unlink(&self.blobs, &blobs.collect::<Vec<_>>()).await?;
        unlink(&self.store, &[self.pointer_key(run)]).await
    }
}

/// Removes keys, wherever they are: on a Cluster each may be on another master.
async fn unlink(connection: &Connection, keys: &[String]) -> Result<(), StoreError> {
    let keys_a_command = if connection.is_cluster() { 1 } else { KEYS_A_COMMAND };
    for keys in keys.chunks(keys_a_command) {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let removed = connection.send(&command("UNLINK", &keys), true).await;
        removed.map_err(unavailable("empty the mailbox"))?;
    }
    Ok(())
}

fn command(name: &str, arguments: &[&str]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(arguments);
    command
}

fn unavailable(action: &'static str) -> impl Fn(SendError) -> StoreError {
    move |error| StoreError::Unavailable { action, effect: error.effect, reason: error.to_string() }
}

/// The text in an answer; none if nothing is there.
fn bytes(answer: Value, action: &'static str) -> Result<Option<Vec<u8>>, StoreError> {
    redis::from_redis_value(answer).map_err(|error| StoreError::Unavailable {
        action,
        effect: Effect::NotDone,
        reason: format!("the answer cannot be read: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::ConnectSettings;
    use interlock_model::Timestamp;
    use interlock_servers::{AppendOnly, Redis, RedisOptions};

    async fn mailbox(redis: &Redis, prefix: &str) -> RedisMailbox {
        let mut settings = ConnectSettings::new(redis.url().parse().unwrap());
        prefix.clone_into(&mut settings.prefix);
        let connection = Connection::open(settings).await.unwrap();
        RedisMailbox::new(connection.clone(), connection)
    }

    async fn server() -> Redis {
        let options = RedisOptions { append_only: AppendOnly::Off, ..RedisOptions::default() };
        Redis::start(options).await.unwrap()
    }

    fn job() -> JobId {
        let run = RunId::new(Timestamp::from_millis(1), [3; 10]);
        format!("{run}:step[2]@1").parse().unwrap()
    }

    #[tokio::test]
    async fn a_worker_finds_its_input_and_we_find_its_result_and_whose_it_is() {
        let redis = server().await;
        let (mailbox, job) = (mailbox(&redis, "cordum").await, job());
        assert_eq!(mailbox.tenant_of(job.run).await.unwrap(), None);
        mailbox.point(job.run, &"acme".parse().unwrap()).await.unwrap();
        assert_eq!(mailbox.tenant_of(job.run).await.unwrap().unwrap().as_str(), "acme");

        let pointer = mailbox.put_input(&job, r#"{"n":1}"#).await.unwrap();
        assert_eq!(pointer, format!("redis://ctx:{job}"));
        assert_eq!(redis.command(&["GET", &format!("ctx:{job}")]).await.unwrap(), r#"{"n":1}"#);

        let result = format!("redis://res:{job}");
        assert_eq!(mailbox.result(&job, &result).await.unwrap(), None);
        redis.command(&["SET", &format!("res:{job}"), "[1]"]).await.unwrap();
        assert_eq!(mailbox.result(&job, &result).await.unwrap().as_deref(), Some(b"[1]".as_slice()));

        mailbox.forget(job.run, std::slice::from_ref(&job)).await.unwrap();
        assert_eq!(mailbox.result(&job, &result).await.unwrap(), None);
        assert_eq!(mailbox.tenant_of(job.run).await.unwrap(), None);
        assert_eq!(redis.command(&["EXISTS", &format!("ctx:{job}")]).await.unwrap(), "0");
    }

    #[tokio::test]
    async fn with_a_prefix_our_keys_have_it_and_the_sdks_are_still_found() {
        let redis = server().await;
        let (mailbox, job) = (mailbox(&redis, "blue").await, job());
        assert_eq!(mailbox.put_input(&job, "1").await.unwrap(), format!("redis://blue:ctx:{job}"));
        for key in [format!("res:{job}"), format!("blue:res:{job}")] {
            redis.command(&["SET", &key, "2"]).await.unwrap();
            assert!(mailbox.result(&job, &format!("redis://{key}")).await.unwrap().is_some(), "{key}");
        }
        mailbox.forget(job.run, std::slice::from_ref(&job)).await.unwrap();
        assert_eq!(redis.command(&["KEYS", "*res:*"]).await.unwrap(), "");
    }

    #[tokio::test]
    async fn only_the_result_of_the_job_is_read_and_up_to_a_bounded_size() {
        let redis = server().await;
        let (mailbox, job) = (mailbox(&redis, "cordum").await, job());
        let (own, other) = (format!("res:{job}"), format!("redis://res:{job}2"));
        redis.command(&["MSET", "wf:secret", "1", &format!("res:{job}2"), "1"]).await.unwrap();
        let http = format!("http://{own}");
        for pointer in ["redis://wf:secret", "redis://", &own, &http, &other, ""] {
            assert!(matches!(mailbox.result(&job, pointer).await, Err(StoreError::Conflict(_))), "{pointer}");
        }
        // The server makes a string as long as its last byte is far.
        let pointer = format!("redis://{own}");
        redis.command(&["SETRANGE", &own, &(RESULT_MAX - 1).to_string(), "1"]).await.unwrap();
        assert_eq!(mailbox.result(&job, &pointer).await.unwrap().unwrap().len(), RESULT_MAX);
        redis.command(&["SETRANGE", &own, &RESULT_MAX.to_string(), "1"]).await.unwrap();
        assert!(matches!(mailbox.result(&job, &pointer).await, Err(StoreError::Conflict(_))));
    }
}
