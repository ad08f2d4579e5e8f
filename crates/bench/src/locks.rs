//! One lock and many who want it, over three replicas on a real Redis and a real NATS.
//!
//! The measure of it all is one uncontended acquire and release over HTTP, in the same run.

mod client;
mod contenders;
mod hand_off;

use std::path::Path;

use anyhow::Result;

use crate::replicas::Replicas;
use crate::report::{Commands, Report};
use crate::{Arguments, progress};

/// How long each contender holds the lock.
const HOLD: std::time::Duration = std::time::Duration::from_millis(1);

/// Asking again every ten milliseconds asks so often that a thousand would keep the machine busy for minutes.
const POLLING: usize = 200;

pub(crate) const UNCONTENDED: &str = "uncontended acquire";
pub(crate) const PAIR: &str = "uncontended acquire and release";
pub(crate) const IN_LINE: &str = "contenders in line";
pub(crate) const POLLED: &str = "contenders that poll";
pub(crate) const HAND_OFF: &str = "hand-off";

pub(crate) async fn measure(arguments: &Arguments, binary: &Path) -> Result<Report> {
    let replicas = Replicas::start(binary, 3).await?;
    let mut report = Report::default();
    let progress = progress::bar(arguments.rounds as u64 * 4)?;
    for round in 0..arguments.rounds {
        progress.set_message(UNCONTENDED);
        let (acquire, pair) = client::uncontended(&replicas, arguments.time()).await?;
        report.add(UNCONTENDED, acquire);
        report.add(PAIR, pair);
        progress.inc(1);
        progress.set_message(HAND_OFF);
        report.add(HAND_OFF, hand_off::measure(&replicas, arguments.time()).await?);
        progress.inc(1);
        progress.set_message(IN_LINE);
        let (line, commands) = contenders::in_line(&replicas, arguments.contenders, round).await?;
        report.add(IN_LINE, line);
        report.commands.push(Commands { name: IN_LINE, per_grant: commands });
        progress.inc(1);
        progress.set_message(POLLED);
        let polling = POLLING.min(arguments.contenders);
        let (polled, commands) = contenders::polled(&replicas, polling, round).await?;
        report.add(POLLED, polled);
        report.commands.push(Commands { name: POLLED, per_grant: commands });
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(report)
}

/// How long one turn with the lock would take if passing it on cost as much as acquiring and releasing it costs a single
/// client.
pub(crate) fn seconds_alone(pair_us: u64) -> f64 {
    HOLD.as_secs_f64() + std::time::Duration::from_micros(pair_us).as_secs_f64()
}
