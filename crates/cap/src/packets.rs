//! Packets that come without a stream: handshakes, heartbeats and progress.

use std::sync::Arc;

use async_nats::{Message, Subscriber};
use futures_util::StreamExt as _;
use interlock_backend::jobs::Progress;
use tokio_util::sync::CancellationToken;

use crate::edge::Shared;
use crate::lease_check::{NamedJob, Rejection};
use crate::registry;
use crate::wire::{self, JobProgress, Payload, Received};

/// Packets of a subject that are handled at once.
const AT_ONCE: usize = 32;

/// The longest progress message, in characters.
const MESSAGE_MAX: usize = 1_024;

/// Handles the packets of one subject until `shutdown`.
pub(crate) async fn run(shared: Arc<Shared>, packets: Subscriber, shutdown: CancellationToken) {
    let packets = packets.take_until(shutdown.cancelled_owned());
    packets.for_each_concurrent(AT_ONCE, |message| handle(&shared, message)).await;
}

async fn handle(shared: &Shared, message: Message) {
    if let Err(reason) = accept(shared, &message).await {
        shared.drop_packet(&message.subject, &reason);
    }
}

async fn accept(shared: &Shared, message: &Message) -> Result<(), Rejection> {
    let Received { sender, payload } = wire::read(&message.payload)?;
    match (message.subject.as_str(), payload) {
        (wire::HANDSHAKE, Payload::Handshake(handshake)) => {
            registry::introduce(shared, &sender, &handshake).await
        }
        (wire::HEARTBEAT, Payload::Heartbeat(heartbeat)) => registry::beat(shared, &sender, &heartbeat).await,
        (wire::PROGRESS, Payload::JobProgress(progress)) => record_progress(shared, &sender, &progress).await,
        _ => Err(Rejection::Unreadable("the packet does not belong on this subject".to_owned())),
    }
}

/// Progress is sent once: if it cannot be recorded now, it is dropped.
async fn record_progress(shared: &Shared, sender: &str, progress: &JobProgress) -> Result<(), Rejection> {
    let Ok(percent @ 0..=100) = u8::try_from(progress.percent) else {
        return Err(Rejection::Refused(format!("{} is not a percentage", progress.percent)));
    };
    let job = NamedJob::find(shared, &progress.job_id).await?;
    let fence = job.fence_of(sender, progress.dispatch.as_ref())?;
    let message = Some(wire::shortened(&progress.message, MESSAGE_MAX)).filter(|message| !message.is_empty());
    shared.control.results.progress(&job.tenant, &job.id, fence, Progress { percent, message }).await?;
    job.confirm(shared, sender, progress.dispatch.as_ref()).await;
    Ok(())
}
