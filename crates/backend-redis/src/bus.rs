//! Wake-ups between processes, over core NATS. Nothing is stored: a lost one costs a poll's time.

use std::collections::HashSet;

use async_nats::connection::State;
use async_nats::{Client, Subject, Subscriber};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use interlock_backend::{Bus, Wake};
use interlock_model::InstanceId;
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Wake-ups that a slow listener, or a slow NATS, may be behind before some are dropped.
const BACKLOG: usize = 4_096;
/// Wake-ups in one message.
const MESSAGE_MAX: usize = 256;

/// What one process says to the others.
#[derive(Serialize, Deserialize)]
struct Message {
    /// The sender has handled it already.
    from: InstanceId,
    wakes: Vec<Wake>,
}

/// The bus of many processes. Within this one a wake-up takes no detour over NATS.
pub struct NatsBus {
    client: Client,
    here: broadcast::Sender<Wake>,
    outgoing: mpsc::Sender<Wake>,
    /// Whether this process advances runs: then a ready run is ours, and others find it only if we do not.
    has_engine: bool,
    _tasks: DropGuard,
}

impl NatsBus {
    /// Listens and speaks as `instance`, under subjects that begin with the installation's `prefix`.
    pub fn start(
        client: Client,
        prefix: &str,
        instance: InstanceId,
        has_engine: bool,
    ) -> BoxFuture<'_, Result<Self, async_nats::SubscribeError>> {
        // Boxed, so that it is compiled here and not wherever it is awaited.
        Box::pin(async move {
            let all = Subject::from(format!("interlock.{prefix}.wake"));
            let ready = Subject::from(format!("interlock.{prefix}.ready"));
            let here = broadcast::channel(BACKLOG).0;
            let (outgoing, waiting) = mpsc::channel(BACKLOG);
            let tasks = CancellationToken::new();
            let spawn = |listening: Subscriber| {
                let listen = listen(listening, here.clone(), instance.clone());
                tokio::spawn(tasks.clone().run_until_cancelled_owned(listen));
            };
            spawn(client.subscribe(all.clone()).await?);
            if has_engine {
                // One engine of all is enough for a ready run.
                spawn(client.queue_subscribe(ready.clone(), "engines".to_owned()).await?);
            }
            let speak = speak(client.clone(), waiting, instance, (all, ready));
            tokio::spawn(tasks.clone().run_until_cancelled_owned(speak));
            Ok(Self { client, here, outgoing, has_engine, _tasks: tasks.drop_guard() })
        })
    }
}

impl Bus for NatsBus {
    fn wake(&self, wake: Wake) {
        let is_ours = self.has_engine && matches!(wake, Wake::RunReady { .. });
        if !is_ours {
            // What does not fit is found by the poll.
            let _ = self.outgoing.try_send(wake.clone());
        }
        // It is fine without a listener: a new listener checks the store first.
        let _ = self.here.send(wake);
    }

    fn subscribe(&self) -> broadcast::Receiver<Wake> {
        self.here.subscribe()
    }

    fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }
}

async fn listen(mut listening: Subscriber, here: broadcast::Sender<Wake>, instance: InstanceId) {
    while let Some(heard) = listening.next().await {
        match serde_json::from_slice::<Message>(&heard.payload) {
            Ok(message) if message.from == instance => {}
            Ok(message) => message.wakes.into_iter().for_each(|wake| drop(here.send(wake))),
            // Another release may say what this one does not know.
            Err(error) => tracing::debug!(%error, "a wake-up that cannot be read"),
        }
    }
}

/// Says what has gathered as one message; the same thing twice is said once.
async fn speak(
    client: Client,
    mut waiting: mpsc::Receiver<Wake>,
    instance: InstanceId,
    (all, ready): (Subject, Subject),
) {
    let mut gathered = Vec::with_capacity(MESSAGE_MAX);
    while waiting.recv_many(&mut gathered, MESSAGE_MAX).await > 0 {
        let mut said = HashSet::with_capacity(gathered.len());
        gathered.retain(|wake| said.insert(wake.clone()));
        // What NATS would keep for later is late anyway by then, and the poll has found it.
        if client.connection_state() != State::Connected {
            gathered.clear();
            continue;
        }
        let is_ready = |wake: &Wake| matches!(wake, Wake::RunReady { .. });
        let (for_one, for_all): (Vec<Wake>, Vec<Wake>) = gathered.drain(..).partition(is_ready);
        for (subject, wakes) in [(&all, for_all), (&ready, for_one)] {
            publish(&client, subject, Message { from: instance.clone(), wakes }).await;
        }
    }
}

async fn publish(client: &Client, subject: &Subject, message: Message) {
    if message.wakes.is_empty() {
        return;
    }
    let payload = serde_json::to_vec(&message).expect("wake-ups are plain data");
    if payload.len() > client.max_payload() {
        tracing::debug!(bytes = payload.len(), "a wake-up is too long for NATS; the poll finds what it says");
    } else if let Err(error) = client.publish(subject.clone(), payload.into()).await {
        tracing::debug!(%error, "a wake-up was not sent; the poll finds what it says");
    }
}
