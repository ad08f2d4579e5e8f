//! One gateway on a real Redis and a real NATS, beside the same script called directly, on the same server.

mod direct;
mod flatness;
mod machines;
mod monitor;
mod seed;
mod template;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use http::StatusCode;

use self::direct::Creating;
use self::machines::Machines;
use crate::load::Measured;
use crate::report::{RedisMemory, Report};
use crate::starts::Question;
use crate::{Arguments, clients, progress};

/// Each ceiling right before what it is the ceiling of: the machine is the same for both then, whatever else it does.
const MEASUREMENTS: [&str; 6] = [
    "bare script",
    "admitted starts",
    "bare script, 1 client",
    "admitted starts, 1 client",
    "refused starts",
    "refused starts, 1 client",
];

/// Tenants of their own, so that each measurement finds only what it left itself.
const CEILING: &str = "ceiling";
const ADMITTED: &str = "admitted";
const REFUSED: &str = "refused";

const NO_LIMIT: u32 = 1_000_000_000;

pub(crate) async fn measure(arguments: &Arguments, binary: &Path) -> Result<Report> {
    let mut report = Report::default();
    let names = arguments.wanted(&MEASUREMENTS);
    if !names.is_empty() {
        measure_rounds(arguments, &names, binary, &mut report).await?;
    }
    flatness::measure(arguments, binary, &mut report).await?;
    Ok(report)
}

async fn measure_rounds(
    arguments: &Arguments,
    names: &[&'static str],
    binary: &Path,
    report: &mut Report,
) -> Result<()> {
    let machines = Machines::start(binary).await?;
    machines.prepare(CEILING, NO_LIMIT).await?;
    machines.prepare(ADMITTED, NO_LIMIT).await?;
    machines.prepare(REFUSED, 1).await?;
    machines.start_run(REFUSED, None).await?;
    let admit = Arc::new(template::admit(&machines, CEILING).await?);
    let progress = progress::bar((arguments.rounds * names.len()) as u64)?;
    for _ in 0..arguments.rounds {
        for &name in names {
            progress.set_message(name);
            report.add(name, measure_one(name, &machines, &admit, arguments).await?);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let runs = machines.runs_active(CEILING).await? + machines.runs_active(ADMITTED).await?;
    let content = format!("the {runs} runs of the rounds");
    report.redis_memory.push(RedisMemory { content, used: machines.memory_used().await? });
    Ok(())
}

async fn measure_one(
    name: &str,
    machines: &Machines,
    admit: &Arc<Creating>,
    arguments: &Arguments,
) -> Result<Measured> {
    let (time, clients) = (arguments.time(), clients(name));
    let question = match name.split(',').next().unwrap_or(name) {
        "bare script" => return direct::measure(machines, admit, time, clients).await,
        "admitted starts" => machines.question(ADMITTED),
        "refused starts" => {
            let question = machines.question(REFUSED);
            Question { expected: StatusCode::TOO_MANY_REQUESTS, ..question }
        }
        other => bail!("there is no measurement {other}"),
    };
    question.ask(time, clients).await
}
