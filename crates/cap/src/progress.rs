//! How far workers are.

use std::sync::Arc;

use async_nats::{Message, Subscriber};
use futures_util::StreamExt as _;
use interlock_backend::StoreError;
use interlock_backend::jobs::Progress;
use tokio_util::sync::CancellationToken;

use crate::edge::Shared;
use crate::holder::{self, Unheld};
use crate::wire::{self, JobProgress, Payload};

const AT_ONCE: usize = 32;
const MESSAGE_MAX: usize = 1_024;

pub(crate) async fn run(shared: Arc<Shared>, heard: Subscriber, shutdown: CancellationToken) {
    let heard = heard.take_until(shutdown.cancelled_owned());
    heard.for_each_concurrent(AT_ONCE, |message| tell(&shared, message)).await;
}

/// Progress is told once and not kept for later: what cannot be written down now is passed over.
async fn tell(shared: &Shared, message: Message) {
    let (sender, progress) = match wire::read(&message.payload) {
        Ok(wire::Received { sender, payload: Payload::JobProgress(progress) }) => (sender, progress),
        Ok(_) => return shared.passed_over(wire::PROGRESS, &"it is no progress"),
        Err(reason) => return shared.passed_over(wire::PROGRESS, &reason),
    };
    if let Err(reason) = write_down(shared, &sender, &progress).await {
        shared.passed_over(wire::PROGRESS, &reason);
    }
}

async fn write_down(shared: &Shared, sender: &str, progress: &JobProgress) -> Result<(), Unheld> {
    let Ok(percent @ 0..=100) = u8::try_from(progress.percent) else {
        return Err(Unheld::Refused(format!("{} is no percentage", progress.percent)));
    };
    let hold = holder::find(shared, &progress.job_id).await?;
    let fence = hold.held_by(sender, progress.dispatch.as_ref())?;
    let message = Some(wire::shortened(&progress.message, MESSAGE_MAX)).filter(|message| !message.is_empty());
    let told = Progress { percent, message };
    let written = shared.results.progress(&hold.tenant, &hold.id, fence, told).await;
    written.map_err(|error: StoreError| Unheld::from_store(&error))
}
