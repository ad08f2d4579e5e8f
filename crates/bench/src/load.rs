//! Clients that ask again as soon as they are answered, for a while.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

/// What a load has seen.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) per_second: f64,
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
}

/// A client: given when to stop, it returns the microseconds of each of its requests.
pub(crate) async fn run<F, C>(clients: usize, time: Duration, client: F) -> Result<Measured>
where
    F: Fn(usize, Instant) -> C,
    C: Future<Output = Result<Vec<u64>>> + Send + 'static,
{
    let began = Instant::now();
    let until = began + time;
    let mut running = JoinSet::new();
    for number in 0..clients {
        running.spawn(client(number, until));
    }
    let mut histogram = Histogram::<u64>::new(3)?;
    while let Some(ended) = running.join_next().await {
        for micros in ended?? {
            histogram.record(micros.max(1))?;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of seconds are far below 2^52")]
    let per_second = histogram.len() as f64 / began.elapsed().as_secs_f64();
    Ok(Measured {
        per_second,
        p50_us: histogram.value_at_quantile(0.5),
        p99_us: histogram.value_at_quantile(0.99),
    })
}

/// Microseconds since `began`.
pub(crate) fn micros(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// What was measured one by one, as a load of one client.
pub(crate) async fn sequential(times: Vec<u64>, time: Duration) -> Result<Measured> {
    let count = times.len();
    let measured = run(1, time, |_, _| {
        let times = times.clone();
        async move { Ok(times) }
    })
    .await?;
    #[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^52")]
    let per_second = count as f64 / time.as_secs_f64();
    Ok(Measured { per_second, ..measured })
}
