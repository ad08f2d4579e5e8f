//! The store: each verb is a script, or a few of them, and this is what calls them.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use interlock_backend::verbs::{Admit, Answer, Request};
use interlock_backend::{Backend, Bus, StoreError, Verb, for_each_verb};
use interlock_model::admission::StartOutcome;
use interlock_model::{Clock, InstanceId};
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::admission::Admissions;
use crate::client::{ScriptClient, new_request};
use crate::connect::Connection;
use crate::known::Known;
use crate::reply::{Unreadable, Value};
use crate::script::{Arguments, Call, Home, Missing, packed};
use crate::texts::LargeText;
use crate::{aside, pulse, reply};

/// What a verb is about.
pub(crate) trait Addressed {
    /// Whose keys its script touches.
    fn home(&self) -> Home;

    /// What it means that the script finds something missing.
    fn missing(&self) -> Missing {
        None
    }
}

/// A verb that one call of its script carries out: its fields are the arguments, and the reply is its answer.
pub(crate) trait Scripted: Addressed + Verb<Answer: DeserializeOwned> + Serialize {
    /// The name of its script.
    const SCRIPT: &'static str = Self::NAME;

    /// Whether it only checks whether there is something to do.
    const IS_POLL: bool = false;

    /// Refuses what no script is asked.
    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn arguments(&self) -> Vec<u8> {
        packed(self)
    }

    /// The same, without the large documents that go ahead of them.
    fn arguments_and_texts(&self) -> (Vec<u8>, Vec<LargeText>) {
        (self.arguments(), Vec::new())
    }

    fn read(&self, reply: Value<'_>) -> Result<Self::Answer, Unreadable> {
        Self::Answer::deserialize(reply)
    }

    /// What this process learns from the answer.
    fn learn(&self, _answer: &Self::Answer, _known: &Known) {}

    /// The mark of the run lease that may be left behind if the answer to `request` is lost for good.
    fn lease_in_doubt(&self, _request: &str) -> Option<String> {
        None
    }
}

/// A verb as this backend carries it out.
pub(crate) trait Execute: Verb {
    fn execute(self, store: &RedisStore) -> impl Future<Output = Result<Self::Answer, StoreError>> + Send;
}

impl<V: Scripted> Execute for V {
    async fn execute(self, store: &RedisStore) -> Result<V::Answer, StoreError> {
        self.check()?;
        let client = &store.client;
        let (arguments, texts) = self.arguments_and_texts();
        let call = Call {
            is_poll: V::IS_POLL,
            missing: self.missing(),
            arguments,
            texts,
            ..Call::on_behalf_of::<V>(V::SCRIPT, self.home(), Arguments::default())
        };
        let request = new_request();
        let reply = client.call_as(&call, &request).await.inspect_err(|error| {
            // Otherwise the lease that the call may have acquired blocks the run until it expires.
            if matches!(error, StoreError::Unavailable { .. })
                && let Some(mark) = self.lease_in_doubt(&request)
            {
                client.known().doubt_lease(mark);
            }
        })?;
        let answer = aside::unless_small(reply::bytes_of(&reply), || {
            reply::read(&call, &reply, |reply| self.read(reply))
        })?;
        self.learn(&answer, client.known());
        Ok(answer)
    }
}

/// The contract, fulfilled by Redis.
pub struct RedisStore {
    pub(crate) client: Arc<ScriptClient>,
    pub(crate) admissions: Admissions,
    instance: InstanceId,
    /// The tasks that serve this store end with it.
    tasks: CancellationToken,
    _end: DropGuard,
}

impl RedisStore {
    /// A store over an open connection, for one start of one process.
    pub fn open(
        connection: Connection,
        instance: InstanceId,
    ) -> BoxFuture<'static, Result<Self, StoreError>> {
        // Boxed, so that it is compiled here and not wherever it is awaited.
        Box::pin(Self::on(connection, instance, None))
    }

    /// The same on a clock that a test moves.
    #[cfg(feature = "testing")]
    pub async fn on_clock(
        connection: Connection,
        instance: InstanceId,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        Self::on(connection, instance, Some(clock)).await
    }

    async fn on(
        connection: Connection,
        instance: InstanceId,
        clock: Option<Arc<dyn Clock>>,
    ) -> Result<Self, StoreError> {
        let client = Arc::new(ScriptClient::new(connection, clock));
        pulse::beat(&client, &instance).await?;
        let tasks = CancellationToken::new();
        tokio::spawn(tasks.clone().run_until_cancelled_owned(pulse::run(client.clone(), instance.clone())));
        let admissions = Admissions::start(&client, &tasks);
        let end = tasks.clone().drop_guard();
        Ok(Self { client, admissions, instance, tasks, _end: end })
    }

    /// Reads changed limits as soon as the bus announces them, and not only with the next pulse.
    pub fn follow(&self, bus: &dyn Bus) {
        let following = pulse::follow(bus.subscribe(), self.client.clone(), self.instance.clone());
        tokio::spawn(self.tasks.clone().run_until_cancelled_owned(following));
    }
}

macro_rules! dispatch {
    (($store:ident, $request:ident) reads { $($read:ident),* } writes { $($write:ident),* }) => {
        match $request {
            $(Request::$read(verb) => verb.execute($store).await.map(Answer::$read),)*
            $(Request::$write(verb) => verb.execute($store).await.map(Answer::$write),)*
        }
    };
}

#[async_trait]
impl Backend for RedisStore {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        for_each_verb!(dispatch!(self, request))
    }

    /// What one process knows is never enough to refuse a start: another may have freed a slot.
    fn refusal(&self, _: &Admit) -> Option<StartOutcome> {
        None
    }

    fn commands_sent(&self) -> u64 {
        self.client.commands_sent()
    }
}
