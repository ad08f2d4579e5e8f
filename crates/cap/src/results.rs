//! Results come in: from the stream, acknowledged only when the store has them.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Subscriber;
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::{AckKind, Message};
use futures_util::StreamExt as _;
use interlock_control::results::RUN_BUSY;
use interlock_model::{JobId, Timestamp};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::edge::Shared;
use crate::holder::Unheld;
use crate::letters;
use crate::streams;
use crate::verdict::{self, Arrival};
use crate::wire::{self, Payload};

/// How long a pull waits at NATS, and how often NATS says that it still does.
const PULL: Duration = Duration::from_secs(10);
const PULL_HEARTBEAT: Duration = Duration::from_secs(3);

/// The longest pause before a consumer that failed is made again, or a result is tried again that must not be lost.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Learns from every result which worker has room again. It is only a hint; the result itself comes from the stream.
pub(crate) async fn watch(shared: Arc<Shared>, mut heard: Subscriber, shutdown: CancellationToken) {
    while let Some(Some(message)) = shutdown.run_until_cancelled(heard.next()).await {
        let Ok(wire::Received { payload: Payload::JobResult(result), .. }) = wire::read(&message.payload)
        else {
            continue;
        };
        let Ok(job) = result.job_id.parse::<JobId>() else { continue };
        if verdict::ending(&result).is_some() && shared.pushed.ended(&job, &result.worker_id) {
            shared.line.try_again();
        }
    }
}

/// Handles results until `shutdown`. A consumer that is gone is made again.
pub(crate) async fn run(shared: Arc<Shared>, mut consumer: PullConsumer, shutdown: CancellationToken) {
    loop {
        let error = match consume(&shared, &consumer, &shutdown).await {
            Ok(()) => return,
            Err(error) => error,
        };
        if let Some(kept_back) = shared.quiet.may_warn() {
            tracing::warn!(%error, kept_back, "results cannot be pulled from NATS; trying again");
        }
        loop {
            let pause = tokio::time::sleep(shared.process.jittered(PAUSE_MAX));
            if shutdown.run_until_cancelled(pause).await.is_none() {
                return;
            }
            let Some(prepared) =
                shutdown.run_until_cancelled(streams::prepare(&shared.jetstream, &shared.settings)).await
            else {
                return;
            };
            match prepared {
                Ok(prepared) => break consumer = prepared,
                Err(error) => tracing::debug!(%error, "the consumer of results cannot be made yet"),
            }
        }
    }
}

/// Pulls until `shutdown` or an error. What is in hand is finished first.
async fn consume(
    shared: &Arc<Shared>,
    consumer: &PullConsumer,
    shutdown: &CancellationToken,
) -> Result<(), async_nats::Error> {
    let at_once = shared.settings.results_at_once.max(1);
    let pull = consumer.stream().max_messages_per_batch(at_once).expires(PULL).heartbeat(PULL_HEARTBEAT);
    let mut messages = pull.messages().await?;
    let permits = Arc::new(Semaphore::new(at_once));
    let mut in_hand = JoinSet::new();
    let ended = loop {
        let permit = tokio::select! {
            () = shutdown.cancelled() => break Ok(()),
            permit = permits.clone().acquire_owned() => permit?,
        };
        while in_hand.try_join_next().is_some() {}
        let next = tokio::select! {
            () = shutdown.cancelled() => break Ok(()),
            next = messages.next() => next,
        };
        match next {
            Some(Ok(message)) => {
                let (shared, shutdown) = (shared.clone(), shutdown.clone());
                in_hand.spawn(async move {
                    settle(&shared, message, &shutdown).await;
                    drop(permit);
                });
            }
            Some(Err(error)) => break Err(error.into()),
            None => break Err("the pull has ended".into()),
        }
    };
    while in_hand.join_next().await.is_some() {}
    ended
}

/// Handles one delivery of one result to its end, telling NATS meanwhile that it is in hand.
async fn settle(shared: &Shared, message: Message, shutdown: &CancellationToken) {
    let word = shared.settings.ack_wait / 3;
    let mut words = tokio::time::interval_at(Instant::now() + word, word);
    words.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let decision = decide(shared, &message, shutdown);
    tokio::pin!(decision);
    let decided = loop {
        tokio::select! {
            decided = &mut decision => break decided,
            _ = words.tick() => told(message.ack_with(AckKind::Progress).await),
        }
    };
    match decided {
        Decided::Finished => told(message.double_ack().await),
        Decided::TryAgain(delay) => told(message.ack_with(AckKind::Nak(Some(delay))).await),
        Decided::LeftOpen => {}
    }
}

/// What NATS is told about a delivery.
enum Decided {
    Finished,
    /// It is to be delivered again, not before so long.
    TryAgain(Duration),
    /// We are stopping: it was not handled, and NATS finds out by itself.
    LeftOpen,
}

/// An acknowledgement that is lost costs another delivery, which finds the work done.
fn told(acknowledged: Result<(), async_nats::Error>) {
    if let Err(error) = acknowledged {
        tracing::debug!(%error, "NATS was not told about a result");
    }
}

/// Which delivery of its result this message is, by number and as those who count know it.
fn arrival(shared: &Shared, message: &Message) -> (i64, Arrival) {
    let Ok(info) = message.info() else { return (1, Arrival { attempt: 1, waited: Duration::ZERO }) };
    let published = info.published.unix_timestamp_nanos() / 1_000_000;
    let published = Timestamp::from_millis(u64::try_from(published).unwrap_or_default());
    let attempt = u32::try_from(info.delivered).unwrap_or(u32::MAX);
    (info.delivered, Arrival { attempt, waited: shared.process.now().since(published) })
}

async fn decide(shared: &Shared, message: &Message, shutdown: &CancellationToken) -> Decided {
    let (deliveries, arrival) = arrival(shared, message);
    loop {
        let (reason, busy) = match verdict::handle(shared, &message.payload, arrival).await {
            Ok(()) => {
                shared.tally.results_recorded.up();
                return Decided::Finished;
            }
            Err(Unheld::Recorded) => return Decided::Finished,
            Err(Unheld::Unreadable(reason)) => {
                shared.passed_over(wire::RESULT, &reason);
                return Decided::Finished;
            }
            Err(Unheld::Refused(reason)) => {
                shared.tally.results_refused.up();
                shared.results.count_refused();
                if let Some(kept_back) = shared.quiet.may_warn() {
                    let job = verdict::read(&message.payload).map(|result| result.job_id).unwrap_or_default();
                    tracing::warn!(job, %reason, kept_back, "a result was refused");
                }
                return Decided::Finished;
            }
            Err(Unheld::NotNow(reason)) => (reason, None),
            Err(Unheld::Busy(job)) => (RUN_BUSY.to_owned(), Some(job)),
        };
        if deliveries < shared.settings.max_deliver {
            shared.tally.results_put_off.up();
            // Only a busy run goes by the policy that is in force for it.
            let by_policy =
                busy.and_then(|job| shared.results.count_busy(&job, arrival.attempt, arrival.waited));
            return Decided::TryAgain(by_policy.unwrap_or(shared.settings.redelivery_delay));
        }
        match letters::bury(shared, &message.payload, deliveries, &reason).await {
            Ok(()) => return Decided::Finished,
            // There will be no other delivery, so it stays in hand until the store answers.
            Err(error) => tracing::debug!(%error, %reason, "a result cannot be handled or buried yet"),
        }
        let pause = tokio::time::sleep(shared.process.jittered(PAUSE_MAX));
        if shutdown.run_until_cancelled(pause).await.is_none() {
            return Decided::LeftOpen;
        }
    }
}
