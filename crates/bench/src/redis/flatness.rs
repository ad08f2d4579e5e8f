//! Whether a start costs the same in a store that is nearly empty and in one that is full.
//!
//! Few and many are in stores of their own. All keys of a Redis share one table: beside the many, a tenant with few
//! would be measured in the full store, too. And a store with few is a fresh one in each round, because a round adds
//! more than was there.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use indicatif::ProgressBar;

use super::machines::Machines;
use super::{NO_LIMIT, seed, template};
use crate::load::Measured;
use crate::report::{RedisMemory, Report};
use crate::{Arguments, progress};

/// Short and many: few and many take turns, also in who is first, so that what else happens on the machine meets both.
const ROUNDS: usize = 5;
const FEW: u64 = 1_000;
const CLIENTS: usize = 64;

/// What there is few or many of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thing {
    ActiveRuns,
    IdempotencyKeys,
}

/// A tenant with the name of the measurement, and the number of things that it has.
#[derive(Debug, Clone, Copy)]
struct Tenant {
    name: &'static str,
    thing: Thing,
    things: u64,
}

#[derive(Debug, Clone, Copy)]
struct Pair {
    few: Tenant,
    many: Tenant,
}

pub(crate) async fn measure(arguments: &Arguments, binary: &Path, report: &mut Report) -> Result<()> {
    let pairs = pairs(arguments);
    if pairs.is_empty() {
        return Ok(());
    }
    let full = Machines::start(binary).await?;
    for Pair { many, .. } in &pairs {
        let progress = progress::bar(many.things)?;
        progress.set_message(format!("seeding {}", many.name));
        many.seed(&full, &progress).await?;
        progress.finish_and_clear();
    }
    full.settle().await?;
    let content = pairs.iter().map(|pair| pair.many.content()).collect::<Vec<_>>().join(" and ");
    report.redis_memory.push(RedisMemory { content, used: full.memory_used().await? });
    let progress = progress::bar((ROUNDS * pairs.len()) as u64)?;
    for round in 0..ROUNDS {
        for pair in &pairs {
            progress.set_message(format!("{} beside {}", pair.few.name, pair.many.name));
            let fresh = Machines::start(binary).await?;
            pair.few.seed(&fresh, &ProgressBar::hidden()).await?;
            let mut turns = [(pair.few, &fresh), (pair.many, &full)];
            turns.rotate_left(round % 2);
            for (tenant, machines) in turns {
                report.add(tenant.name, tenant.measure(machines, round, arguments.time() * 2 / 5).await?);
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(())
}

/// Few and many of each thing that the arguments name.
fn pairs(arguments: &Arguments) -> Vec<Pair> {
    let pair = |few, many, thing, things| Pair {
        few: Tenant { name: few, thing, things: FEW },
        many: Tenant { name: many, thing, things },
    };
    let all = [
        pair("runs-few", "runs-many", Thing::ActiveRuns, arguments.runs_many),
        pair("keys-few", "keys-many", Thing::IdempotencyKeys, arguments.keys_many),
    ];
    let is_wanted =
        |Pair { few, many }: &Pair| many.things > 0 && !arguments.wanted(&[few.name, many.name]).is_empty();
    all.into_iter().filter(is_wanted).collect()
}

impl Tenant {
    async fn seed(&self, machines: &Machines, progress: &ProgressBar) -> Result<()> {
        machines.prepare(self.name, NO_LIMIT).await?;
        let creating = match self.thing {
            Thing::ActiveRuns => template::admit(machines, self.name).await?,
            Thing::IdempotencyKeys => template::idempotency_key(machines, self.name).await?,
        };
        seed::fill(machines, &creating, self.things, progress).await
    }

    /// Starts of this tenant, after a few that warm up a gateway which may just have been started.
    async fn measure(&self, machines: &Machines, round: usize, time: Duration) -> Result<Measured> {
        let mut question = machines.question(self.name);
        let keys = |name: &str| (self.thing == Thing::IdempotencyKeys).then(|| format!("{name}-{round}"));
        question.keys = keys("warm-up");
        question.ask(time / 5, CLIENTS).await?;
        question.keys = keys("round");
        question.ask(time, CLIENTS).await
    }

    fn content(&self) -> String {
        match self.thing {
            Thing::ActiveRuns => format!("{} active runs", self.things),
            Thing::IdempotencyKeys => format!("{} idempotency keys", self.things),
        }
    }
}
