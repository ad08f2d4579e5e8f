//! What can be seen of the Redis servers, and of the processes that tell them how they are.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::StoreError;
use interlock_backend::inspection::{Probe, Probed};
use interlock_model::InstanceId;
use interlock_model::doctor::{Finding, Invariant, RepairOutcome};

use crate::connect::{SendError, SendErrorKind};
use crate::pulse::GONE_AFTER;
use crate::script::{Arguments, Call};
use crate::store::RedisStore;

/// Clocks that are apart by no more agree: nothing that matters is decided by any but the store's.
const SKEW_MAX: Duration = Duration::from_secs(1);

/// A process that was silent for longer between two pulses had used up half of what others wait before they take over.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Used memory from which on it is short, in percent of what the server may use.
const MEMORY_SHORT_PERCENT: u64 = 90;

const KEEPS_ALL: &str = "noeviction";

/// What a server says of its memory.
struct Memory {
    server: String,
    /// Not every managed service tells.
    policy: Option<String>,
    used: Option<u64>,
    /// None if there is no bound.
    max: Option<u64>,
}

/// How a process keeps time.
struct Timekeeper {
    instance: String,
    ahead: i64,
    silence: Duration,
}

#[async_trait]
impl Probe for RedisStore {
    async fn probe(&self) -> Vec<Probed> {
        let (memories, timekeepers) = tokio::join!(self.memories(), self.timekeepers());
        let mut probed = match memories {
            Ok(memories) => [judge_policies(&memories), judge_room(&memories)].concat(),
            Err(error) => unseen([Invariant::MemoryPolicy, Invariant::MemoryShort], &error).into(),
        };
        match timekeepers {
            Ok(timekeepers) => {
                probed.extend([judge_clocks(&timekeepers), judge_pulses(&timekeepers)].concat());
            }
            Err(error) => probed.extend(unseen([Invariant::ClockSkew, Invariant::RenewalLag], &error)),
        }
        probed
    }

    async fn live_instances(&self) -> Result<Vec<InstanceId>, StoreError> {
        let known = self.timekeepers().await?;
        Ok(known.iter().filter_map(|timekeeper| timekeeper.instance.parse().ok()).collect())
    }

    async fn repair(&self, invariant: Invariant, subject: &str) -> Result<RepairOutcome, StoreError> {
        if invariant == Invariant::MemoryPolicy {
            return self.keep_all(subject).await;
        }
        Ok(RepairOutcome::NothingToDo)
    }
}

impl RedisStore {
    async fn memories(&self) -> Result<Vec<Memory>, StoreError> {
        let answers = self.client.connection().ask_every_master(redis::cmd("INFO").arg("memory")).await;
        let answers = answers.map_err(|error| unavailable("look at the servers", error))?;
        let read = |(server, info)| {
            Memory::read(server, &redis::from_redis_value::<String>(info).unwrap_or_default())
        };
        Ok(answers.into_iter().map(read).collect())
    }

    async fn timekeepers(&self) -> Result<Vec<Timekeeper>, StoreError> {
        let call = Call::read("rhythms", "read how processes keep time", Arguments::default());
        let reported: Vec<(String, String)> = self.client.call(call).await?;
        Ok(reported.into_iter().map(read_timekeeper).collect())
    }

    /// Sets the policy of all servers to keep everything. A restart resets it, unless their configuration says so, too.
    async fn keep_all(&self, server: &str) -> Result<RepairOutcome, StoreError> {
        let memories = self.memories().await?;
        let named = memories.iter().find(|memory| memory.server == server);
        if named.is_none_or(|memory| memory.policy.as_deref().is_none_or(|policy| policy == KEEPS_ALL)) {
            return Ok(RepairOutcome::NothingToDo);
        }
        let set = redis::cmd("CONFIG").arg("SET").arg("maxmemory-policy").arg(KEEPS_ALL).take();
        match self.client.connection().ask_every_master(&set).await {
            Ok(_) => Ok(RepairOutcome::Repaired),
            Err(error) if error.kind == SendErrorKind::Refused => {
                Ok(RepairOutcome::Impossible { reason: format!("Redis refused it: {}", error.reason) })
            }
            Err(error) => Err(unavailable("set the memory policy", error)),
        }
    }
}

fn unavailable(action: &'static str, error: SendError) -> StoreError {
    StoreError::Unavailable { action, effect: error.effect, reason: error.reason }
}

fn unseen(invariants: [Invariant; 2], error: &StoreError) -> [Probed; 2] {
    invariants.map(|invariant| Probed::Unseen { invariant, reason: error.to_string() })
}

/// All that is wrong, or that nothing is.
fn judged(
    invariant: Invariant,
    found: impl Iterator<Item = (String, String)>,
    is_repairable: bool,
) -> Vec<Probed> {
    let finding = |(subject, detail)| {
        Probed::Found(Finding { invariant, tenant: None, subject, detail, is_repairable })
    };
    let found: Vec<Probed> = found.map(finding).collect();
    if found.is_empty() { vec![Probed::Sound(invariant)] } else { found }
}

impl Memory {
    fn read(server: String, info: &str) -> Self {
        let fields: HashMap<&str, &str> =
            info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
        let number = |name: &str| fields.get(name).and_then(|text| text.parse::<u64>().ok());
        Self {
            server,
            policy: fields.get("maxmemory_policy").map(|&policy| policy.to_owned()),
            used: number("used_memory"),
            max: number("maxmemory").filter(|max| *max > 0),
        }
    }
}

fn judge_policies(memories: &[Memory]) -> Vec<Probed> {
    let invariant = Invariant::MemoryPolicy;
    if let Some(silent) = memories.iter().find(|memory| memory.policy.is_none()) {
        let reason = format!("Redis at {} does not say its policy", silent.server);
        return vec![Probed::Unseen { invariant, reason }];
    }
    let evicting = memories.iter().filter_map(|memory| {
        let policy = memory.policy.as_deref().filter(|policy| *policy != KEEPS_ALL)?;
        let now = match memory.max {
            Some(_) => "when its memory is full, it evicts runs",
            None => "it has no bound now, and with one it would evict runs",
        };
        let detail = format!("maxmemory-policy is {policy}: {now}");
        Some((memory.server.clone(), detail))
    });
    judged(invariant, evicting, true)
}

fn judge_room(memories: &[Memory]) -> Vec<Probed> {
    let invariant = Invariant::MemoryShort;
    let short = memories.iter().filter_map(|memory| {
        let (used, max) = (memory.used?, memory.max?);
        let percent = used.saturating_mul(100) / max;
        let detail = format!("{percent} % of the memory that it may use is in use");
        (percent >= MEMORY_SHORT_PERCENT).then(|| (memory.server.clone(), detail))
    });
    judged(invariant, short, false)
}

fn judge_clocks(timekeepers: &[Timekeeper]) -> Vec<Probed> {
    let invariant = Invariant::ClockSkew;
    let skewed = timekeepers.iter().filter_map(|process| {
        let apart = Duration::from_millis(process.ahead.unsigned_abs());
        let side = if process.ahead > 0 { "ahead of" } else { "behind" };
        let detail = format!("its clock is {:.1} s {side} the store's", apart.as_secs_f64());
        (apart > SKEW_MAX).then(|| (process.instance.clone(), detail))
    });
    judged(invariant, skewed, false)
}

fn judge_pulses(timekeepers: &[Timekeeper]) -> Vec<Probed> {
    let invariant = Invariant::RenewalLag;
    let late = timekeepers.iter().filter_map(|process| {
        let detail = format!(
            "its last pulses were {:.1} s apart; after {} s others take over what it holds",
            process.silence.as_secs_f64(),
            GONE_AFTER.as_secs()
        );
        (process.silence > SILENCE_MAX).then(|| (process.instance.clone(), detail))
    });
    judged(invariant, late, false)
}

/// As the process wrote it with its pulse. One of an older release does not say.
fn read_timekeeper((instance, rhythm): (String, String)) -> Timekeeper {
    let (ahead, silence) = rhythm.split_once(' ').unwrap_or(("0", "0"));
    let silence = Duration::from_millis(silence.parse().unwrap_or(0));
    Timekeeper { instance, ahead: ahead.parse().unwrap_or(0), silence }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(probed: &[Probed]) -> Vec<String> {
        let subject = |probed: &Probed| match probed {
            Probed::Found(finding) => finding.subject.clone(),
            Probed::Sound(_) | Probed::Unseen { .. } => panic!("{probed:?}"),
        };
        probed.iter().map(subject).collect()
    }

    #[test]
    fn a_server_that_may_throw_data_away_is_named_whether_or_not_it_has_a_bound() {
        let memories = [
            Memory::read("a".to_owned(), "maxmemory:0\r\nmaxmemory_policy:noeviction\r\nused_memory:5\r\n"),
            Memory::read("b".to_owned(), "maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\nused_memory:5\r\n"),
            Memory::read("c".to_owned(), "maxmemory:9\r\nmaxmemory_policy:volatile-ttl\r\nused_memory:5\r\n"),
        ];
        assert_eq!(subjects(&judge_policies(&memories)), ["b", "c"]);
        let silent = [Memory::read("d".to_owned(), "used_memory:5\r\n")];
        assert!(matches!(judge_policies(&silent)[..], [Probed::Unseen { .. }]));
    }

    #[test]
    fn memory_is_short_from_nine_tenths_of_its_bound() {
        let memory = |server: &str, used: u64, max: u64| {
            Memory::read(server.to_owned(), &format!("used_memory:{used}\r\nmaxmemory:{max}\r\n"))
        };
        let memories = [memory("a", 899, 1_000), memory("b", 900, 1_000), memory("c", 1_000_000, 0)];
        assert_eq!(subjects(&judge_room(&memories)), ["b"]);
    }

    #[test]
    fn a_clock_that_is_off_and_a_pulse_that_is_late_are_named() {
        let process = |instance: &str, ahead: i64, silence: u64| Timekeeper {
            instance: instance.to_owned(),
            ahead,
            silence: Duration::from_millis(silence),
        };
        let processes = [
            process("a", 1_000, 5_000),
            process("b", 1_001, 1_000),
            process("c", -1_001, 0),
            process("d", 0, 5_001),
        ];
        assert_eq!(subjects(&judge_clocks(&processes)), ["b", "c"]);
        assert_eq!(subjects(&judge_pulses(&processes)), ["d"]);
    }
}
