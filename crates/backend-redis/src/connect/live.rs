//! One open connection to one server, and what is known about its health.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::sync::Notify;

use super::address::Host;
use super::dialer::{As, Dialer};
use super::facts::Facts;
use super::judgement::{LinkState, judge};

#[derive(Clone)]
pub(super) struct Live {
    socket: MultiplexedConnection,
    health: Arc<Health>,
}

struct Health {
    broken: AtomicBool,
    suspect: AtomicBool,
    noticed: Arc<Notify>,
}

impl Live {
    pub(super) async fn dial(dialer: &Dialer, host: &Host, noticed: &Arc<Notify>) -> RedisResult<Self> {
        let health = Arc::new(Health {
            broken: AtomicBool::new(false),
            suspect: AtomicBool::new(false),
            noticed: Arc::clone(noticed),
        });
        let closing = Arc::clone(&health);
        let socket = dialer.dial(host, As::User, move || closing.notice(LinkState::Broken)).await?;
        Ok(Self { socket, health })
    }

    pub(super) fn is_usable(&self) -> bool {
        !self.health.broken.load(Ordering::Acquire)
    }

    /// Whether an answer was missed since the last call.
    pub(super) fn take_suspicion(&self) -> bool {
        self.health.suspect.swap(false, Ordering::AcqRel)
    }

    pub(super) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let answer = self.socket.clone().send_packed_command(command).await.and_then(without_error);
        self.learn_from(&answer);
        answer
    }

    /// The commands back to back in one round trip; an error of one is its own answer.
    pub(super) async fn send_pipeline(&self, pipeline: &Pipeline) -> RedisResult<Vec<RedisResult<Value>>> {
        let answers = self.socket.clone().send_packed_commands(pipeline, 0, pipeline.len()).await;
        self.learn_from(&answers);
        let answers: Vec<_> = answers?.into_iter().map(without_error).collect();
        for answer in &answers {
            self.learn_from(answer);
        }
        Ok(answers)
    }

    pub(super) async fn facts(&self) -> RedisResult<Facts> {
        let info: String = redis::from_redis_value(self.send(&redis::cmd("INFO")).await?)?;
        Ok(Facts::parse(&info))
    }

    fn learn_from<T>(&self, answer: &RedisResult<T>) {
        if let Err(error) = answer {
            self.health.notice(judge(error).link);
        }
    }
}

impl Health {
    fn notice(&self, state: LinkState) {
        match state {
            LinkState::Fine => return,
            LinkState::Suspect => self.suspect.store(true, Ordering::Release),
            LinkState::Broken => self.broken.store(true, Ordering::Release),
        }
        self.noticed.notify_one();
    }
}

/// An error that the server answered stands in a value; only the outermost is the command's.
pub(super) fn without_error(value: Value) -> RedisResult<Value> {
    if let Value::ServerError(error) = value { Err(error.into()) } else { Ok(value) }
}
