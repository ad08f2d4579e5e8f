//! Commands that Redis was sent for a real start, with random places where the run's id was.
//!
//! Taken from a start and not written down here: what is measured and what is seeded is what the gateway writes today.

use anyhow::{Context as _, Result, ensure};

use super::benchmark::{Creating, RANDOM};
use super::machines::{Machines, active_runs};
use super::monitor::Monitor;
use crate::server::WORKFLOW;

/// The script of a start, called as the gateway calls it for a start that comes alone.
pub(crate) async fn admit(machines: &Machines, tenant: &'static str) -> Result<Creating> {
    // The first start teaches Redis the script; from the second on it is called by its hash.
    machines.start_run(tenant, None).await?;
    let monitor = Monitor::begin(machines.redis_port()).await?;
    let run = machines.start_run(tenant, None).await?;
    // Nothing can name a run before the script that makes it.
    let is_admit = |words: &[Vec<u8>]| {
        words[0].eq_ignore_ascii_case(b"EVALSHA") && words.iter().any(|word| word == run.as_bytes())
    };
    let words = monitor.find(is_admit).await.context("cannot find the script of a start in MONITOR")?;
    let words = words.iter().map(|word| with_random_run(word, &run)).collect::<Result<_>>()?;
    Ok(Creating { words, counted_by: counted_by(&["SCARD", &active_runs(tenant)]) })
}

/// What a start leaves of its idempotency key.
pub(crate) async fn idempotency_key(machines: &Machines, tenant: &'static str) -> Result<Creating> {
    let run = machines.start_run(tenant, Some("sample")).await?;
    let begin = format!("wf:run:idempotency:{{{tenant}}}:{WORKFLOW}:");
    let sample = format!("{begin}sample");
    let value = machines.command(&["GET", &sample]).await?;
    ensure!(!value.is_empty(), "a start with an idempotency key left nothing at {sample}");
    let mut words = vec![b"SET".to_vec(), [begin.as_bytes(), b"0000-", RANDOM].concat()];
    words.push(with_random_run(value.as_bytes(), &run)?);
    // -1: it stays for ever.
    let life: i64 = machines.command(&["PTTL", &sample]).await?.parse()?;
    if life > 0 {
        words.extend([b"PX".to_vec(), life.to_string().into_bytes()]);
    }
    Ok(Creating { words, counted_by: counted_by(&["DBSIZE"]) })
}

fn counted_by(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The same text, as long as before, with a random end of each `run` in it.
fn with_random_run(text: &[u8], run: &str) -> Result<Vec<u8>> {
    let kept = run.len().checked_sub(RANDOM.len()).context("a run's id is too short for a random part")?;
    let random = [&run.as_bytes()[..kept], RANDOM].concat();
    let mut replaced = Vec::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix(run.as_bytes()) {
            replaced.extend_from_slice(&random);
            rest = behind;
        } else {
            replaced.push(rest[0]);
            rest = &rest[1..];
        }
    }
    Ok(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    #[test]
    fn each_mention_of_the_run_becomes_random_and_nothing_moves() {
        let text = format!("{{\"run\":\"{RUN}\",\"job\":\"{RUN}:work@1\"}}");
        let replaced = String::from_utf8(with_random_run(text.as_bytes(), RUN).unwrap()).unwrap();
        let random = "01890a5d-ac96-774b-bcce-__rand_int__";
        assert_eq!(replaced, format!("{{\"run\":\"{random}\",\"job\":\"{random}:work@1\"}}"));
        assert_eq!(replaced.len(), text.len());
    }

    #[test]
    fn what_does_not_name_the_run_stays() {
        let other = b"01890a5d-ac96-774b-bcce-b302099a8058";
        assert_eq!(with_random_run(other, RUN).unwrap(), other);
    }
}
