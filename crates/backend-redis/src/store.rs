//! The store: each verb is a script, or a few of them, and this is what calls them.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use interlock_backend::verbs::{Admit, Answer, Request};
use interlock_backend::{Backend, Bus, StoreError, Verb, for_each_verb};
use interlock_model::admission::StartOutcome;
use interlock_model::{Clock, InstanceId};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::admission::Admissions;
use crate::client::{ScriptClient, damaged, new_request};
use crate::connect::Connection;
use crate::known::Known;
use crate::pulse;
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Script};

/// A verb that one call of a script carries out.
pub(crate) trait Scripted: Verb {
    fn script() -> &'static Script;

    fn call(&self, client: &ScriptClient) -> Call;

    fn read(&self, reply: Reply) -> Result<Self::Answer, Unreadable>;

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
        let client = &store.client;
        let call = self.call(client);
        let (script, request) = (call.script.name, new_request());
        let reply = client.call_as(call, &request).await.inspect_err(|error| {
            // What it may have acquired would otherwise be held by nobody until the lease ends.
            if matches!(error, StoreError::Unavailable { .. })
                && let Some(mark) = self.lease_in_doubt(&request)
            {
                client.known().doubt_lease(mark);
            }
        })?;
        let answer = self.read(reply).map_err(|error| damaged(script, error))?;
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
    pub async fn open(connection: Connection, instance: InstanceId) -> Result<Self, StoreError> {
        Self::on(connection, instance, None).await
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

    /// Calls a script and reads its reply.
    pub(crate) async fn ask_script<T>(
        &self,
        call: Call,
        read: impl FnOnce(Reply) -> Result<T, Unreadable>,
    ) -> Result<T, StoreError> {
        let script = call.script.name;
        let reply = self.client.call(call).await?;
        read(reply).map_err(|error| damaged(script, error))
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
