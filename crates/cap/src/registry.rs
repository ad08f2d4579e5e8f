//! Workers that introduce themselves, and workers that say how they are.

use std::sync::Arc;

use async_nats::{Message, Subscriber};
use futures_util::StreamExt as _;
use interlock_backend::StoreError;
use interlock_backend::registry::{Beat, Handshake};
use interlock_model::{InvalidId, Topic, WorkerId};
use tokio_util::sync::CancellationToken;

use crate::edge::Shared;
use crate::wire::{self, BadPacket, ComponentRole, Payload};

/// Writes to the store at once.
const AT_ONCE: usize = 32;

/// What is kept of a worker's word about itself.
const TOPICS_MAX: usize = 256;
const CAPABILITIES_MAX: usize = 64;
const TEXT_MAX: usize = 128;

/// The label by which a worker says that it serves one tenant only.
const TENANT_LABEL: &str = "tenant";

/// Why a word of a worker is passed over.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    Packet(#[from] BadPacket),
    #[error(transparent)]
    Name(#[from] InvalidId),
    #[error("it is not about a worker")]
    NotAWorker,
    #[error("the worker does not speak protocol version {}", wire::PROTOCOL_VERSION)]
    OtherVersion,
}

pub(crate) async fn introductions(shared: Arc<Shared>, heard: Subscriber, shutdown: CancellationToken) {
    let heard = heard.take_until(shutdown.cancelled_owned());
    heard.for_each_concurrent(AT_ONCE, |message| introduce(&shared, message)).await;
}

pub(crate) async fn beats(shared: Arc<Shared>, heard: Subscriber, shutdown: CancellationToken) {
    let heard = heard.take_until(shutdown.cancelled_owned());
    heard.for_each_concurrent(AT_ONCE, |message| beat(&shared, message)).await;
}

async fn introduce(shared: &Shared, message: Message) {
    let (worker, handshake, left_out) = match read_handshake(&message.payload) {
        Ok(read) => read,
        Err(reason) => return shared.passed_over(wire::HANDSHAKE, &reason),
    };
    match start_anew(shared, &worker, &handshake).await {
        Ok(()) => {
            tracing::info!(%worker, topics = handshake.topics.len(), left_out, "a worker on NATS introduced itself");
            // Its jobs may wait already.
            shared.line.look_at_all();
        }
        Err(error) => unwritten(shared, &worker, &error),
    }
}

/// Workers introduce themselves when they start: what one held before is with nobody any more.
async fn start_anew(shared: &Shared, worker: &WorkerId, handshake: &Handshake) -> Result<(), StoreError> {
    let registry = shared.workers.registry().await?;
    let was_here = registry.workers.iter().any(|known| known.worker == *worker && known.handshake.is_some());
    if was_here {
        let lost = shared.workers.abandon(worker).await?;
        if lost > 0 {
            shared.tally.jobs_abandoned.add(lost);
            tracing::warn!(%worker, lost, "a worker has started anew; the jobs of its former life go to others");
        }
    }
    shared.workers.register(worker, handshake).await
}

async fn beat(shared: &Shared, message: Message) {
    let (worker, beat) = match read_beat(&message.payload) {
        Ok(read) => read,
        Err(reason) => return shared.passed_over(wire::HEARTBEAT, &reason),
    };
    match shared.workers.beat(&worker, &beat).await {
        Ok(before) => match before {
            Some(before) if !brings_more(&before, &beat) => {
                if beat.jobs_active < before.jobs_active {
                    shared.line.try_again();
                }
            }
            // Jobs may wait that only this worker can do.
            _ => shared.line.look_at_all(),
        },
        Err(error) => unwritten(shared, &worker, &error),
    }
}

/// Whether the worker may now be given something that it could not be given before.
fn brings_more(before: &Beat, now: &Beat) -> bool {
    *before != Beat { jobs_active: before.jobs_active, ..now.clone() }
}

fn unwritten(shared: &Shared, worker: &WorkerId, error: &StoreError) {
    shared.hearing.disturb();
    if let Some(kept_back) = shared.quiet.may_warn() {
        tracing::warn!(%worker, %error, kept_back, "what a worker said about itself was not written down");
    }
}

/// The worker, what it serves, and how many of its topics were left out.
fn read_handshake(bytes: &[u8]) -> Result<(WorkerId, Handshake, usize), Unusable> {
    let received = wire::read(bytes)?;
    let Payload::Handshake(handshake) = received.payload else { return Err(Unusable::NotAWorker) };
    wire::same_name(&received.sender, &handshake.component_id)?;
    if handshake.role() != ComponentRole::Worker {
        return Err(Unusable::NotAWorker);
    }
    let versions = &handshake.supported_versions;
    if !versions.is_empty() && !versions.contains(&wire::PROTOCOL_VERSION) {
        return Err(Unusable::OtherVersion);
    }
    let worker: WorkerId = handshake.component_id.parse()?;
    // No step can name a topic that is no name of ours, so nothing is lost with it.
    let topics = handshake.ready_topics.iter().filter_map(|topic| topic.parse().ok());
    let mut topics: Vec<Topic> = topics.take(TOPICS_MAX).collect();
    topics.sort();
    topics.dedup();
    let left_out = handshake.ready_topics.len() - topics.len();
    Ok((worker, Handshake { topics }, left_out))
}

fn read_beat(bytes: &[u8]) -> Result<(WorkerId, Beat), Unusable> {
    let received = wire::read(bytes)?;
    let Payload::Heartbeat(heartbeat) = received.payload else { return Err(Unusable::NotAWorker) };
    wire::same_name(&received.sender, &heartbeat.worker_id)?;
    let worker = heartbeat.worker_id.parse()?;
    // A label that names no tenant of ours must not open the worker to all of them.
    let tenant = heartbeat.labels.get(TENANT_LABEL).map(|name| name.parse()).transpose()?;
    let capabilities = heartbeat.capabilities.iter().take(CAPABILITIES_MAX);
    let beat = Beat {
        capabilities: capabilities.map(|capability| wire::shortened(capability, TEXT_MAX)).collect(),
        pool: Some(wire::shortened(&heartbeat.pool, TEXT_MAX)).filter(|pool| !pool.is_empty()),
        tenant,
        jobs_active: u32::try_from(heartbeat.active_jobs).unwrap_or(0),
        jobs_max: u32::try_from(heartbeat.max_parallel_jobs).unwrap_or(0),
    };
    Ok((worker, beat))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::BusPacket;
    use prost::Message as _;

    fn packet(sender: &str, payload: Payload) -> Vec<u8> {
        let packet = BusPacket {
            sender_id: sender.to_owned(),
            protocol_version: 1,
            payload: Some(payload),
            ..BusPacket::default()
        };
        packet.encode_to_vec()
    }

    fn handshake(role: ComponentRole, topics: &[&str]) -> Payload {
        Payload::Handshake(wire::Handshake {
            component_id: "w".to_owned(),
            role: role.into(),
            supported_versions: vec![1],
            ready_topics: topics.iter().map(|&topic| topic.to_owned()).collect(),
            ..wire::Handshake::default()
        })
    }

    fn heartbeat(label: Option<&str>) -> Payload {
        let labels = label.map(|tenant| (TENANT_LABEL.to_owned(), tenant.to_owned()));
        Payload::Heartbeat(wire::Heartbeat {
            worker_id: "w".to_owned(),
            active_jobs: -1,
            max_parallel_jobs: 3,
            labels: labels.into_iter().collect(),
            ..wire::Heartbeat::default()
        })
    }

    #[test]
    fn topics_that_no_job_can_have_are_left_out() {
        let read =
            read_handshake(&packet("w", handshake(ComponentRole::Worker, &["job.b", "no good", "job.a"])));
        let (_, Handshake { topics }, left_out) = read.unwrap();
        assert_eq!(left_out, 1);
        assert_eq!(topics.iter().map(Topic::as_str).collect::<Vec<_>>(), ["job.a", "job.b"]);
    }

    #[test]
    fn only_workers_that_speak_for_themselves_are_heard() {
        let gateway = handshake(ComponentRole::Gateway, &["job.a"]);
        assert!(matches!(read_handshake(&packet("w", gateway)), Err(Unusable::NotAWorker)));
        let other = handshake(ComponentRole::Worker, &["job.a"]);
        let refused = read_handshake(&packet("other", other));
        assert!(matches!(refused, Err(Unusable::Packet(BadPacket::Impostor { .. }))));
        assert!(matches!(read_beat(&packet("other", heartbeat(None))), Err(Unusable::Packet(_))));
    }

    #[test]
    fn a_tenant_label_is_read_and_a_wrong_one_refused() {
        let (worker, beat) = read_beat(&packet("w", heartbeat(Some("acme")))).unwrap();
        assert_eq!((worker.as_str(), beat.jobs_active, beat.jobs_max), ("w", 0, 3));
        assert_eq!(beat.tenant.unwrap().as_str(), "acme");
        assert!(matches!(read_beat(&packet("w", heartbeat(Some("no tenant")))), Err(Unusable::Name(_))));
        assert_eq!(read_beat(&packet("w", heartbeat(None))).unwrap().1.tenant, None);
    }
}
