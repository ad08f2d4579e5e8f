//! `redis-benchmark`: what Redis does when nothing stands before it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;
use tokio::time::timeout;

use super::machines::Machines;
use super::monitor::Words;
use crate::load::Measured;

/// What `redis-benchmark -r` replaces by twelve digits, at each place by others.
pub(crate) const RANDOM: &[u8; 12] = b"__rand_int__";
/// The number of different values. `redis-benchmark` takes no more than an `int` here.
const RANDOM_VALUES: &str = "1000000000";

/// Enough for a guess at the rate, and over in a moment.
const CALIBRATION: u64 = 2_000;
const REQUESTS_MAX: u64 = 10_000_000;
/// Far more than any chunk or round takes: a process that hangs is given up.
const TIME_MAX: Duration = Duration::from_mins(10);

/// How often something was sent by this process.
static SENDINGS: AtomicU16 = AtomicU16::new(1);

/// A command that makes one new thing each time it is sent, because something in it is random.
pub(crate) struct Creating {
    pub(crate) words: Words,
    /// The command that counts these things.
    pub(crate) counted_by: Vec<String>,
}

/// How many requests, and how they are sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sending {
    pub(crate) requests: u64,
    pub(crate) clients: usize,
    /// Requests that a client sends before it waits for their answers.
    pub(crate) pipeline: usize,
}

/// Sends it for about this time, each client waiting for its answer.
pub(crate) async fn measure(
    machines: &Machines,
    creating: &Creating,
    time: Duration,
    clients: usize,
) -> Result<Measured> {
    let sending = Sending { requests: CALIBRATION, clients, pipeline: 1 };
    let guess = send(machines, creating, sending).await?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count that is clamped next"
    )]
    let requests = (guess.per_second * time.as_secs_f64()) as u64;
    let requests = requests.clamp(CALIBRATION, REQUESTS_MAX);
    send(machines, creating, Sending { requests, ..sending }).await
}

/// Sends it `requests` times, and checks that each request created one thing.
pub(crate) async fn send(machines: &Machines, creating: &Creating, sending: Sending) -> Result<Measured> {
    let count: Vec<&str> = creating.counted_by.iter().map(String::as_str).collect();
    let before = machines.count(&count).await?;
    let words = numbered(&creating.words, SENDINGS.fetch_add(1, Ordering::Relaxed));
    let output = run(machines.redis_port(), &words, sending).await?;
    let made = machines.count(&count).await?.saturating_sub(before);
    // Random numbers meet now and then; an answer other than "done" would make far more of a difference.
    ensure!(
        made >= sending.requests - sending.requests / 50,
        "of {} requests of redis-benchmark only {made} did what they should; it printed:\n{output}",
        sending.requests
    );
    read(&output).with_context(|| format!("cannot read what redis-benchmark printed:\n{output}"))
}

/// `redis-benchmark` draws the same random numbers each time it is started: what it makes would be there already. So the
/// four characters before each random place, which a dash parts from it, are the number of this sending.
fn numbered(words: &Words, sending: u16) -> Words {
    let random = [b"-", &RANDOM[..]].concat();
    let number = format!("{sending:04x}").into_bytes();
    let mut words = words.clone();
    for word in &mut words {
        for place in 4..word.len().saturating_sub(random.len() - 1).max(4) {
            if word[place..].starts_with(&random) {
                word[place - 4..place].copy_from_slice(&number);
            }
        }
    }
    words
}

async fn run(port: u16, words: &Words, sending: Sending) -> Result<String> {
    let mut program = Command::new("redis-benchmark");
    program.args(["-p", &port.to_string(), "-c", &sending.clients.to_string()]);
    program.args(["-n", &sending.requests.to_string(), "-P", &sending.pipeline.to_string()]);
    program.args(["-r", RANDOM_VALUES, "--csv"]);
    program.args(words.iter().map(|word| OsStr::from_bytes(word)));
    program.stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(TIME_MAX, program.output()).await;
    let output = output.with_context(|| format!("redis-benchmark was not done in {TIME_MAX:?}"))?;
    let output = output.context("cannot run redis-benchmark; `cargo xtask bench --redis` installs it")?;
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "redis-benchmark failed, {}: {text}{errors}", output.status);
    Ok(text.into_owned())
}

/// The last line, from its end: its first field is the command itself, with quotes and commas as they are.
fn read(csv: &str) -> Option<Measured> {
    let line = csv.lines().rfind(|line| !line.trim().is_empty())?;
    let fields: Vec<&str> = line.rsplitn(8, ',').collect();
    let [_, p99, _, p50, _, _, per_second, _] = fields.try_into().ok()?;
    let number = |field: &str| field.trim().trim_matches('"').parse::<f64>().ok();
    Some(Measured {
        per_second: number(per_second)?,
        p50_us: micros(number(p50)?),
        p99_us: micros(number(p99)?),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a latency: not negative, and not years"
)]
fn micros(millis: f64) -> u64 {
    (millis * 1_000.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                          \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"";

    #[test]
    fn the_figures_stand_behind_the_command_whatever_is_in_it() {
        let command = r#"EVALSHA 0a {"a":"b","c":[1,2]} ,"#;
        let csv = format!(
            "{HEADER}\n\"{command}\",\"12345.67\",\"0.400\",\"0.1\",\"0.391\",\"0.7\",\"1.007\",\"2.5\"\n"
        );
        let measured = read(&csv).unwrap();
        assert!((measured.per_second - 12_345.67).abs() < 1e-6);
        assert_eq!((measured.p50_us, measured.p99_us), (391, 1_007));
    }

    #[test]
    fn each_sending_has_its_own_number_before_the_random_places() {
        let words = vec![b"SET".to_vec(), b"x:abcd-__rand_int__ and 0123-__rand_int__:y".to_vec()];
        let numbered = numbered(&words, 0x1f);
        assert_eq!(numbered[0], b"SET");
        assert_eq!(numbered[1], b"x:001f-__rand_int__ and 001f-__rand_int__:y");
    }

    #[test]
    fn a_header_without_figures_is_not_read() {
        assert!(read(HEADER).is_none());
        assert!(read("Error from server: NOSCRIPT").is_none());
        assert!(read("").is_none());
    }
}
