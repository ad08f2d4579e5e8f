//! The CAP protocol: its messages and subjects, and how packets are read and written.

use bytes::Bytes;
use interlock_model::Timestamp;
use prost::Message as _;

pub use generated::{BusPacket, bus_packet::Payload};

#[expect(
    clippy::pedantic,
    clippy::large_enum_variant,
    unreachable_pub,
    reason = "generated from the protocol's own files"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/cordum.agent.v1.rs"));
}

pub use generated::{
    ActorType, Budget, ComponentRole, DispatchIdentity, Handshake, Heartbeat, JobCancel, JobMetadata,
    JobPriority, JobProgress, JobRequest, JobResult, JobStatus,
};

pub const PROTOCOL_VERSION: i32 = 1;

/// The sender in the packets of this server.
pub const SENDER: &str = "interlock";

pub const HANDSHAKE: &str = "sys.handshake";
pub const HEARTBEAT: &str = "sys.heartbeat";
pub const RESULT: &str = "sys.job.result";
pub const PROGRESS: &str = "sys.job.progress";
pub const CANCEL: &str = "sys.job.cancel";
/// Results that became dead letters.
pub const DEAD_LETTERS: &str = "sys.job.dlq";

/// The subjects of all workers.
pub const PUSHES: &str = "worker.>";

/// The subject of one worker.
pub fn direct_subject(worker: &str) -> String {
    format!("worker.{worker}.jobs")
}

/// A worker with another name is not accepted: nothing could be sent to it alone.
pub fn is_routable(worker: &str) -> bool {
    worker.split('.').all(|token| !token.is_empty())
}

/// Why a packet cannot be handled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPacket {
    #[error("not a packet of the protocol: {0}")]
    Undecodable(String),
    #[error("protocol version {0}, not {PROTOCOL_VERSION}")]
    Version(i32),
    #[error("no known payload")]
    Empty,
    #[error("the sender {sender:?} speaks for {named:?}")]
    Impostor { sender: String, named: String },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    pub sender: String,
    pub payload: Payload,
}

/// Reads a packet. Fields of later versions are ignored.
pub fn read(bytes: &[u8]) -> Result<Received, BadPacket> {
    let packet = BusPacket::decode(bytes).map_err(|error| BadPacket::Undecodable(error.to_string()))?;
    if packet.protocol_version != PROTOCOL_VERSION {
        return Err(BadPacket::Version(packet.protocol_version));
    }
    let payload = packet.payload.ok_or(BadPacket::Empty)?;
    Ok(Received { sender: packet.sender_id, payload })
}

/// A sender may only speak for itself.
pub fn same_name(sender: &str, named: &str) -> Result<(), BadPacket> {
    if sender == named {
        Ok(())
    } else {
        Err(BadPacket::Impostor { sender: shortened(sender, 80), named: shortened(named, 80) })
    }
}

/// Writes a packet of this server.
pub fn write(trace: &str, now: Timestamp, payload: Payload) -> Bytes {
    let millis = now.as_millis();
    let created_at = prost_types::Timestamp {
        seconds: i64::try_from(millis / 1_000).unwrap_or(i64::MAX),
        nanos: i32::try_from(millis % 1_000 * 1_000_000).unwrap_or(0),
    };
    let packet = BusPacket {
        trace_id: trace.to_owned(),
        sender_id: SENDER.to_owned(),
        created_at: Some(created_at),
        protocol_version: PROTOCOL_VERSION,
        payload: Some(payload),
        ..BusPacket::default()
    };
    packet.encode_to_vec().into()
}

/// The first characters of a text from outside.
pub fn shortened(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heartbeat() -> Payload {
        Payload::Heartbeat(Heartbeat { worker_id: "w".to_owned(), ..Heartbeat::default() })
    }

    #[test]
    fn a_packet_reads_back_as_it_was_written() {
        let bytes = write("trace", Timestamp::from_millis(1_500), heartbeat());
        let packet = BusPacket::decode(&*bytes).unwrap();
        assert_eq!(packet.created_at, Some(prost_types::Timestamp { seconds: 1, nanos: 500_000_000 }));
        assert_eq!(read(&bytes).unwrap(), Received { sender: SENDER.to_owned(), payload: heartbeat() });
    }

    #[test]
    fn fields_of_later_versions_are_ignored() {
        let mut bytes = write("trace", Timestamp::ZERO, heartbeat()).to_vec();
        // Field 99, two bytes long.
        bytes.extend([0x9a, 0x06, 0x02, 0x68, 0x69]);
        assert!(read(&bytes).is_ok());
    }

    #[test]
    fn another_version_or_nonsense_is_refused() {
        let other = BusPacket { protocol_version: 2, payload: Some(heartbeat()), ..BusPacket::default() };
        assert_eq!(read(&other.encode_to_vec()), Err(BadPacket::Version(2)));
        assert!(matches!(read(b"\xff\xff\xff"), Err(BadPacket::Undecodable(_))));
        let empty = BusPacket { protocol_version: 1, ..BusPacket::default() };
        assert_eq!(read(&empty.encode_to_vec()), Err(BadPacket::Empty));
    }

    #[test]
    fn nats_cannot_route_to_a_name_with_an_empty_part() {
        assert_eq!(direct_subject("a.b:c@d-1"), "worker.a.b:c@d-1.jobs");
        assert!(is_routable("a.b:c@d-1"));
        assert!(!is_routable("a.") && !is_routable("a..b"));
    }
}
