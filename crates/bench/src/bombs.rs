//! Bombs of one tenant in a loop, while another one starts runs. The other one's starts must stay nearly as fast as before,
//! and the memory that the bombs took must return.

mod kinds;
mod neighbour;
mod thrower;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use comfy_table::Table;
use http::Method;
use interlock_servers::{Nats, NatsOptions, Redis, RedisOptions};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::server::Server;
use crate::{Arguments, Kind};
use kinds::Bomb;
use neighbour::Starts;
use thrower::{Answers, Thrower};

/// How many times as long the neighbour's p99 may be as without bombs.
const RATIO_MAX: f64 = 5.0;

/// How much more memory than before may stay, and how soon the rest must be free again.
const KEPT_KIB_MAX: u64 = 50 * 1_024;
const RETURNS_WITHIN: Duration = Duration::from_mins(1);

/// How often memory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The key of the operator who has set everything up. It is worth nothing outside of this run.
const ADMIN_KEY: &str = "measuring-only-0123456789abcdef";

pub(crate) async fn measure(arguments: &Arguments, binary: &Path) -> Result<()> {
    let names = Bomb::ALL.map(Bomb::name);
    let wanted = arguments.wanted(&names);
    let bombs: Vec<Bomb> = Bomb::ALL.into_iter().filter(|bomb| wanted.contains(&bomb.name())).collect();
    let time = arguments.time();
    let mut measured = Vec::new();
    for kind in arguments.kinds() {
        let installation = match kind {
            Kind::Embedded => Installation::embedded(binary).await?,
            Kind::Redis => Installation::distributed(binary).await?,
        };
        measured.push((kind.name(), installation.measure(time, &bombs).await?));
    }
    writeln!(std::io::stdout(), "{}", table(&measured))?;
    let broken: Vec<String> = measured
        .iter()
        .flat_map(|(name, it)| it.broken().into_iter().map(move |why| format!("{name}: {why}")))
        .collect();
    if !broken.is_empty() {
        bail!("{}", broken.join("; "));
    }
    Ok(())
}

/// A server with keys, and what it stands on. Fields are dropped in this order.
struct Installation {
    server: Server,
    _redis: Option<Redis>,
    _nats: Option<Nats>,
}

struct Endured {
    quiet: Starts,
    bombed: Starts,
    before_kib: u64,
    peak_kib: u64,
    after_kib: u64,
    returned_after: Duration,
    /// The most ever, by the kernel's own count.
    high_water_kib: u64,
    answers: BTreeMap<Bomb, Answers>,
}

impl Installation {
    async fn embedded(binary: &Path) -> Result<Self> {
        let server = Server::embedded(binary, &["--admin-key", ADMIN_KEY]).await?;
        Ok(Self { server, _redis: None, _nats: None })
    }

    async fn distributed(binary: &Path) -> Result<Self> {
        // As docs/operating/durability.md recommends.
        let arguments = ["--auto-aof-rewrite-min-size", "1gb"].map(str::to_owned).to_vec();
        let redis = Redis::start(RedisOptions { arguments, ..RedisOptions::default() }).await?;
        let nats = Nats::start(NatsOptions::default()).await?;
        let urls = (redis.url(), nats.url());
        let server = Server::distributed(binary, (&urls.0, &urls.1), &["--admin-key", ADMIN_KEY]).await?;
        Ok(Self { server, _redis: Some(redis), _nats: Some(nats) })
    }

    async fn measure(&self, time: Duration, bombs: &[Bomb]) -> Result<Endured> {
        let bombers_key = self.key_of("bomber").await?;
        let key = self.key_of("neighbour").await?;
        kinds::prepare(&mut self.connect(&bombers_key).await?).await?;
        neighbour::prepare(&mut self.connect(&key).await?).await?;
        // Before it is measured, everything has happened once.
        neighbour::start_runs(&self.server.address, &key, time / 10).await?;
        let quiet = neighbour::start_runs(&self.server.address, &key, time / 2).await?;
        let before_kib = self.server.resident_kib()?;

        let until = Instant::now() + time;
        let mut throwers = JoinSet::new();
        for &bomb in bombs {
            let throwers_key = if bomb == Bomb::Tenants { ADMIN_KEY } else { &bombers_key };
            let thrower = Thrower::new(bomb, self.server.address.clone(), throwers_key.to_owned());
            throwers.spawn(thrower.throw_until(until));
        }
        let starting = neighbour::start_runs(&self.server.address, &key, time);
        let (bombed, peak_kib) = tokio::join!(starting, self.watch_memory(until));
        let mut answers = BTreeMap::new();
        while let Some(ended) = throwers.join_next().await {
            let (bomb, answered) = ended??;
            answers.insert(bomb, answered);
        }
        let (after_kib, returned_after) = self.wait_for_memory(before_kib + KEPT_KIB_MAX).await?;
        Ok(Endured {
            quiet,
            bombed: bombed?,
            before_kib,
            peak_kib: peak_kib?,
            after_kib,
            returned_after,
            high_water_kib: self.server.peak_kib()?,
            answers,
        })
    }

    /// A new key for everything that this tenant may do.
    async fn key_of(&self, tenant: &str) -> Result<String> {
        let mut connection = self.connect(ADMIN_KEY).await?;
        let limits = json!({"limits": {"max_concurrent_runs": 100_000}});
        let limits = json!({"scope": "org", "scope_id": tenant, "data": limits});
        connection.call(Method::PUT, "/api/v1/config", &limits).await?;
        let wanted = json!({"name": tenant, "role": "admin", "tenant": tenant});
        let created = connection.call(Method::POST, "/api/v1/keys", &wanted).await?;
        Ok(created["key"].as_str().context("a new key is shown")?.to_owned())
    }

    async fn connect(&self, key: &str) -> Result<Connection> {
        self.server.connect().await?.with_key(key)
    }

    async fn watch_memory(&self, until: Instant) -> Result<u64> {
        let mut peak = 0;
        while Instant::now() < until {
            peak = peak.max(self.server.resident_kib()?);
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(peak)
    }

    /// The memory once it is as little as this, or the time is over.
    async fn wait_for_memory(&self, most_kib: u64) -> Result<(u64, Duration)> {
        let began = Instant::now();
        loop {
            let now = self.server.resident_kib()?;
            if now <= most_kib || began.elapsed() > RETURNS_WITHIN {
                return Ok((now, began.elapsed()));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Endured {
    fn ratio(&self) -> f64 {
        self.bombed.p99_ms() / self.quiet.p99_ms()
    }

    fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        if self.ratio() > RATIO_MAX {
            broken.push(format!(
                "p99 of starts is {:.1} times that without bombs, at most {RATIO_MAX}",
                self.ratio()
            ));
        }
        if self.after_kib > self.before_kib + KEPT_KIB_MAX {
            let kept = mib(self.after_kib.saturating_sub(self.before_kib));
            broken
                .push(format!("{kept} MiB more than before are in use after {} s", RETURNS_WITHIN.as_secs()));
        }
        for (bomb, answers) in &self.answers {
            if answers.thrown() == 0 || answers.failed > 0 {
                broken.push(format!("{}: {answers:?}", bomb.name()));
            }
        }
        broken
    }
}

/// One row per figure, one column per installation.
fn table(measured: &[(&str, Endured)]) -> Table {
    let mut table = Table::new();
    table.set_header(std::iter::once("").chain(measured.iter().map(|(name, _)| *name)));
    let mut add = |title: String, figure: &dyn Fn(&Endured) -> String| {
        table.add_row(std::iter::once(title).chain(measured.iter().map(|(_, it)| figure(it))));
    };
    add("starts of the neighbour, quiet".to_owned(), &|it| it.quiet.count().to_string());
    add("p50, p99 quiet".to_owned(), &|it| it.quiet.shown());
    add("starts of the neighbour, under bombs".to_owned(), &|it| it.bombed.count().to_string());
    add("p50, p99 under bombs".to_owned(), &|it| it.bombed.shown());
    add(format!("p99 ratio (at most {RATIO_MAX})"), &|it| format!("{:.2}", it.ratio()));
    add("RSS before, peak, after (MiB)".to_owned(), &|it| {
        format!("{}, {}, {}", mib(it.before_kib), mib(it.peak_kib), mib(it.after_kib))
    });
    add(format!("RSS within {} MiB after", mib(KEPT_KIB_MAX)), &|it| {
        format!("{:.1} s", it.returned_after.as_secs_f64())
    });
    add("VmHWM (MiB)".to_owned(), &|it| mib(it.high_water_kib).to_string());
    for bomb in Bomb::ALL {
        add(format!("bombs: {}", bomb.name()), &|it| {
            it.answers.get(&bomb).map_or_else(String::new, Answers::shown)
        });
    }
    table
}

fn mib(kib: u64) -> u64 {
    kib / 1_024
}

/// The body of a request that is sent often.
fn text(value: &Value) -> bytes::Bytes {
    bytes::Bytes::from(value.to_string())
}
