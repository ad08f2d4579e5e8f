//! Fuzzing of packets: whatever NATS delivers, what is read of it is within bounds.

use interlock_fuzz::{Target, expect_short};
use interlock_model::Timestamp;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message as _;

use crate::wire::{self, BusPacket, DispatchIdentity, Handshake, Heartbeat, JobProgress, JobResult, Payload};
use crate::{job_result, registry};

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => select(vec!["w", "w-1", "a.b", "w..x", "w.", "", "no name"]).prop_map(str::to_owned),
        1 => "[a-z.:@-]{1,140}",
        1 => "\\PC{0,40}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z.]{0,8}", "\\PC{0,200}", Just("x".repeat(10_000))]
}

fn count() -> impl Strategy<Value = i32> {
    prop_oneof![-2..5_i32, any::<i32>()]
}

fn handshake() -> impl Strategy<Value = Payload> {
    let versions = proptest::collection::vec(0..3_i32, 0..3);
    let topics = proptest::collection::vec(prop_oneof!["[a-c]", text()], 0..300);
    (name(), 0..4_i32, versions, topics).prop_map(|(component_id, role, supported_versions, ready_topics)| {
        Payload::Handshake(Handshake {
            component_id,
            role,
            supported_versions,
            ready_topics,
            ..Handshake::default()
        })
    })
}

fn heartbeat() -> impl Strategy<Value = Payload> {
    let labels =
        proptest::collection::btree_map(select(vec!["tenant".to_owned(), "x".to_owned()]), name(), 0..2);
    let capabilities = proptest::collection::vec(text(), 0..80);
    (name(), count(), count(), labels, capabilities, text()).prop_map(
        |(worker_id, active_jobs, max_parallel_jobs, labels, capabilities, pool)| {
            Payload::Heartbeat(Heartbeat {
                worker_id,
                active_jobs,
                max_parallel_jobs,
                labels,
                capabilities,
                pool,
                ..Heartbeat::default()
            })
        },
    )
}

fn result() -> impl Strategy<Value = Payload> {
    let dispatch = proptest::option::of((text(), any::<u64>(), name()).prop_map(
        |(dispatch_id, attempt, assigned_worker_id)| DispatchIdentity {
            dispatch_id,
            attempt,
            assigned_worker_id,
        },
    ));
    (text(), name(), -1..20_i32, text(), text(), dispatch).prop_map(
        |(job_id, worker_id, status, result_ptr, error_message, dispatch)| {
            let error_code = error_message.clone();
            Payload::JobResult(JobResult {
                job_id,
                worker_id,
                status,
                result_ptr,
                error_code,
                error_message,
                dispatch,
                ..JobResult::default()
            })
        },
    )
}

fn progress() -> impl Strategy<Value = Payload> {
    (text(), count(), text()).prop_map(|(job_id, percent, message)| {
        Payload::JobProgress(JobProgress { job_id, percent, message, ..JobProgress::default() })
    })
}

/// The worker that a payload speaks for.
fn named(payload: &Payload) -> Option<&str> {
    if let Payload::Handshake(handshake) = payload {
        return Some(&handshake.component_id);
    }
    if let Payload::Heartbeat(heartbeat) = payload {
        return Some(&heartbeat.worker_id);
    }
    if let Payload::JobResult(result) = payload { Some(&result.worker_id) } else { None }
}

/// Most senders speak for themselves.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![handshake(), heartbeat(), result(), progress()];
    let version = prop_oneof![9 => Just(wire::PROTOCOL_VERSION), 1 => count()];
    let packet =
        (payload, version, proptest::option::weighted(0.2, name())).prop_map(|(payload, version, other)| {
            let sender_id = other.or_else(|| named(&payload).map(str::to_owned)).unwrap_or_default();
            let packet = BusPacket {
                sender_id,
                protocol_version: version,
                payload: Some(payload),
                ..BusPacket::default()
            };
            packet.encode_to_vec()
        });
    prop_oneof![4 => packet, 1 => proptest::collection::vec(any::<u8>(), 0..200)]
}

fn expect_bounded(sender: &str, payload: &Payload) {
    if let Payload::Handshake(handshake) = payload {
        match registry::read_handshake(sender, handshake) {
            Err(rejection) => expect_short(&rejection),
            Ok((worker, read, left_out)) => {
                assert!(wire::is_routable(worker.as_str()) && worker.as_str() == sender);
                assert!(read.topics.len() <= registry::TOPICS_MAX && read.topics.is_sorted());
                assert_eq!(read.topics.len() + left_out, handshake.ready_topics.len());
            }
        }
    }
    if let Payload::Heartbeat(heartbeat) = payload {
        match registry::read_beat(sender, heartbeat) {
            Err(rejection) => expect_short(&rejection),
            Ok((worker, beat)) => {
                assert!(wire::is_routable(worker.as_str()) && worker.as_str() == sender);
                assert!(beat.capabilities.len() <= registry::CAPABILITIES_MAX);
                let mut texts = beat.capabilities.iter().chain(&beat.pool);
                assert!(texts.all(|text| text.chars().count() <= registry::TEXT_MAX));
                // A label that is not a tenant must not open the worker to all of them.
                assert_eq!(beat.tenant.is_some(), heartbeat.labels.contains_key("tenant"));
            }
        }
    }
    if let Payload::JobResult(result) = payload {
        assert!(job_result::error_of(result).chars().count() <= job_result::ERROR_MAX);
    }
}

#[test]
fn what_is_read_of_a_packet_is_within_bounds() {
    Target::new(env!("CARGO_MANIFEST_DIR"), "packets").fuzz(packet(), |input| {
        if let Ok(result) = job_result::read(input) {
            assert_eq!(wire::read(input).map(|read| read.sender), Ok(result.worker_id));
        }
        match wire::read(input) {
            Err(bad) => expect_short(&bad),
            Ok(received) => {
                expect_bounded(&received.sender, &received.payload);
                let written = wire::write("trace", Timestamp::ZERO, received.payload.clone());
                let again = wire::read(&written).expect("what is written can be read");
                // As texts, because a load may be no number, which is not equal to itself.
                assert_eq!(format!("{:?}", again.payload), format!("{:?}", received.payload));
            }
        }
    });
}
