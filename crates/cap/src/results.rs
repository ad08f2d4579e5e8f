//! Results arrive through the stream and are acknowledged only when the store has them.

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
use crate::job_result::{self, Arrival};
use crate::lease_check::Rejection;
use crate::streams::{self, ACK_WAIT};
use crate::wire;

/// Results that this replica handles at once.
const AT_ONCE: usize = 64;

/// How long a pull waits at NATS, and how often NATS confirms that it still does.
const PULL: Duration = Duration::from_secs(10);
const PULL_HEARTBEAT: Duration = Duration::from_secs(3);

/// The longest pause before a failed consumer is created again, or a result that must not be lost is retried.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Learns from every result which worker has room again. It is only a hint; the result itself comes from the stream.
pub(crate) async fn watch(shared: Arc<Shared>, mut packets: Subscriber, shutdown: CancellationToken) {
    while let Some(Some(message)) = shutdown.run_until_cancelled(packets.next()).await {
        let Ok(result) = job_result::read(&message.payload) else { continue };
        let Ok(job) = result.job_id.parse::<JobId>() else { continue };
        let has_ended = job_result::ending(result.status()).is_some();
        if has_ended
            && let Ok(worker) = result.worker_id.parse()
            && shared.confirmations.see_result(&job, &worker)
        {
            tracing::warn!(%worker, "the heartbeats of the worker do not count its jobs; lost pushes go unnoticed");
        }
        if has_ended && shared.pushed.end(&job, &result.worker_id) {
            shared.queue.wake();
        }
    }
}

/// Handles results until `shutdown`. Creates a missing consumer again.
pub(crate) async fn run(shared: Arc<Shared>, mut consumer: PullConsumer, shutdown: CancellationToken) {
    while let Err(error) = consume(&shared, &consumer, &shutdown).await {
        tracing::warn!(%error, "results cannot be pulled from NATS; retrying");
        let Some(prepared) = shutdown.run_until_cancelled(prepare_again(&shared)).await else { return };
        consumer = prepared;
    }
}

async fn prepare_again(shared: &Shared) -> PullConsumer {
    loop {
        tokio::time::sleep(shared.control.process.jittered(PAUSE_MAX)).await;
        match streams::prepare(&shared.jetstream, &shared.settings).await {
            Ok(consumer) => return consumer,
            Err(error) => tracing::debug!(%error, "the consumer of results cannot be created yet"),
        }
    }
}

/// Pulls until `shutdown` or an error, and finishes the results in progress.
async fn consume(
    shared: &Arc<Shared>,
    consumer: &PullConsumer,
    shutdown: &CancellationToken,
) -> Result<(), async_nats::Error> {
    let pull = consumer.stream().max_messages_per_batch(AT_ONCE).expires(PULL).heartbeat(PULL_HEARTBEAT);
    let mut messages = pull.messages().await?;
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut in_progress = JoinSet::new();
    let ended = loop {
        let next = async { (permits.clone().acquire_owned().await, messages.next().await) };
        let Some((permit, next)) = shutdown.run_until_cancelled(next).await else { break Ok(()) };
        while in_progress.try_join_next().is_some() {}
        match next {
            Some(Ok(message)) => {
                let (shared, shutdown) = (shared.clone(), shutdown.clone());
                in_progress.spawn(async move {
                    settle(&shared, message, &shutdown).await;
                    drop(permit);
                });
            }
            Some(Err(error)) => break Err(error.into()),
            None => break Err("the pull has ended".into()),
        }
    };
    while in_progress.join_next().await.is_some() {}
    ended
}

/// Handles one delivery of one result, and reports progress to NATS until it is done.
async fn settle(shared: &Shared, message: Message, shutdown: &CancellationToken) {
    let period = ACK_WAIT / 3;
    let mut ticks = tokio::time::interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let decision = decide(shared, &message, shutdown);
    tokio::pin!(decision);
    let decided = loop {
        tokio::select! {
            decided = &mut decision => break decided,
            _ = ticks.tick() => log_failure(message.ack_with(AckKind::Progress).await),
        }
    };
    match decided {
        Some(AckKind::Ack) => log_failure(message.double_ack().await),
        Some(kind) => log_failure(message.ack_with(kind).await),
        None => {}
    }
}

/// A lost acknowledgement costs another delivery, which finds the work done.
fn log_failure(acknowledged: Result<(), async_nats::Error>) {
    if let Err(error) = acknowledged {
        tracing::debug!(%error, "result not acknowledged to NATS");
    }
}

fn arrival(shared: &Shared, message: &Message) -> Arrival {
    let Ok(info) = message.info() else { return Arrival { attempt: 1, waited: Duration::ZERO } };
    let published = info.published.unix_timestamp_nanos() / 1_000_000;
    let published = Timestamp::from_millis(u64::try_from(published).unwrap_or_default());
    let attempt = u32::try_from(info.delivered).unwrap_or(u32::MAX);
    Arrival { attempt, waited: shared.control.process.now().since(published) }
}

/// The acknowledgement of a delivery: finished, or another delivery after a delay. None at shutdown: NATS delivers it again
/// by itself.
async fn decide(shared: &Shared, message: &Message, shutdown: &CancellationToken) -> Option<AckKind> {
    let result = match job_result::read(&message.payload) {
        Ok(result) => result,
        Err(reason) => {
            shared.drop_packet(wire::RESULT, &reason);
            return Some(AckKind::Ack);
        }
    };
    let arrival = arrival(shared, message);
    loop {
        let (reason, busy) = match job_result::record(shared, &result, arrival).await {
            Ok(()) => {
                shared.counts.results_recorded.up();
                return Some(AckKind::Ack);
            }
            Err(Rejection::Recorded) => return Some(AckKind::Ack),
            Err(Rejection::Unreadable(reason)) => {
                shared.drop_packet(wire::RESULT, &reason);
                return Some(AckKind::Ack);
            }
            Err(Rejection::Refused(reason)) => {
                shared.counts.results_refused.up();
                shared.control.results.count_refused();
                tracing::warn!(job = result.job_id, %reason, "a result was refused");
                return Some(AckKind::Ack);
            }
            Err(Rejection::NotNow(reason)) => (reason, None),
            Err(Rejection::Busy(job)) => (RUN_BUSY.to_owned(), Some(job)),
        };
        let Arrival { attempt, waited } = arrival;
        if i64::from(attempt) < shared.settings.max_deliver {
            shared.counts.results_deferred.up();
            // Only for a busy run there is a policy.
            let by_policy = busy.and_then(|job| shared.control.results.count_busy(&job, attempt, waited));
            return Some(AckKind::Nak(Some(by_policy.unwrap_or(shared.settings.redelivery_delay))));
        }
        match job_result::bury(shared, &result, attempt, &reason).await {
            Ok(()) => return Some(AckKind::Ack),
            // There will be no other delivery, so it is retried here until the store answers.
            Err(error) => tracing::debug!(%error, %reason, "a result can be neither handled nor buried yet"),
        }
        let pause = tokio::time::sleep(shared.control.process.jittered(PAUSE_MAX));
        shutdown.run_until_cancelled(pause).await?;
    }
}
