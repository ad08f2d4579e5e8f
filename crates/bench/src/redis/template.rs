//! Commands that Redis was sent for a real start, with places for other ids where the run's id was.
//!
//! Taken from a start and not written down here: what is measured and what is seeded is what the gateway writes today.

use anyhow::{Context as _, Result, ensure};

use super::direct::{Creating, UNIQUE};
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
    let words = monitor
        .find(|words| is_script_about(words, &run))
        .await
        .context("cannot find the script of a start in MONITOR")?;
    let words = words.iter().map(|word| with_distinct_run(word, &run)).collect::<Result<_>>()?;
    Ok(Creating { words, counted_by: counted_by(&["SCARD", &active_runs(tenant)]) })
}

/// Whether the command calls a script with this run anywhere in its arguments, which are packed.
fn is_script_about(words: &[Vec<u8>], run: &str) -> bool {
    let names_run = |word: &Vec<u8>| word.windows(run.len()).any(|part| part == run.as_bytes());
    words[0].eq_ignore_ascii_case(b"EVALSHA") && words.iter().any(names_run)
}

/// What a start leaves of its idempotency key.
pub(crate) async fn idempotency_key(machines: &Machines, tenant: &'static str) -> Result<Creating> {
    let run = machines.start_run(tenant, Some("sample")).await?;
    let begin = format!("wf:run:idempotency:{{{tenant}}}:{WORKFLOW}:");
    let sample = format!("{begin}sample");
    let value = machines.command(&["GET", &sample]).await?;
    ensure!(!value.is_empty(), "a start with an idempotency key left nothing at {sample}");
    let mut words = vec![b"SET".to_vec(), [begin.as_bytes(), b"0000-", UNIQUE].concat()];
    words.push(with_distinct_run(value.as_bytes(), &run)?);
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

/// The same text, as long as before, with a place for another end in each `run` in it.
fn with_distinct_run(text: &[u8], run: &str) -> Result<Vec<u8>> {
    let kept = run.len().checked_sub(UNIQUE.len()).context("a run's id is too short to have another end")?;
    let distinct = [&run.as_bytes()[..kept], UNIQUE].concat();
    let mut replaced = Vec::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix(run.as_bytes()) {
            replaced.extend_from_slice(&distinct);
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
    fn each_mention_of_the_run_becomes_another_and_nothing_moves() {
        let text = format!("{{\"run\":\"{RUN}\",\"job\":\"{RUN}:work@1\"}}");
        let replaced = String::from_utf8(with_distinct_run(text.as_bytes(), RUN).unwrap()).unwrap();
        let distinct = "01890a5d-ac96-774b-bcce-__distinct__";
        assert_eq!(replaced, format!("{{\"run\":\"{distinct}\",\"job\":\"{distinct}:work@1\"}}"));
        assert_eq!(replaced.len(), text.len());
    }

    #[test]
    fn the_script_is_found_by_the_run_within_its_packed_arguments() {
        let packed = [b"\x82\xa3run\xd9\x24", RUN.as_bytes(), b"\xa6tenant\xa4acme"].concat();
        let words = |name: &str| vec![name.as_bytes().to_vec(), b"hash".to_vec(), packed.clone()];
        assert!(is_script_about(&words("EVALSHA"), RUN));
        assert!(!is_script_about(&words("RPUSH"), RUN));
        assert!(!is_script_about(&words("EVALSHA"), "01890a5d-ac96-774b-bcce-b302099a8058"));
    }

    #[test]
    fn what_does_not_name_the_run_stays() {
        let other = b"01890a5d-ac96-774b-bcce-b302099a8058";
        assert_eq!(with_distinct_run(other, RUN).unwrap(), other);
    }
}
