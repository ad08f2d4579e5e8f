//! What must be true of a store before we trust it with runs.

use std::collections::HashMap;

use redis::{RedisError, RedisResult, Value};

use super::address::Address;
use super::error::{OpenError, SendErrorKind};
use super::facts::Facts;
use super::finder::Found;
use super::judgement::judge;
use super::lane::Lane;
use super::persistence::{self, Persistence};
use super::settings::Durability;

/// The form of the data that this release reads and writes.
const SCHEMA: u64 = 1;

/// What the checks found that is no reason to refuse.
pub(super) struct Findings {
    pub(super) warnings: Vec<String>,
    pub(super) durability_in_words: String,
}

/// A server that was asked, for messages.
struct Checker<'a> {
    lane: &'a Lane,
    address: &'a Address,
}

/// Checks every master; refuses with what to do.
pub(super) async fn check(
    lane: &Lane,
    address: &Address,
    durability: Durability,
    schema_key: &str,
) -> Result<Findings, OpenError> {
    let checker = Checker { lane, address };
    let mut config = checker.config().await?;
    let mut masters = Vec::new();
    let mut warnings = Vec::new();
    for (host, info) in checker.ask("INFO", &redis::cmd("INFO")).await? {
        let info: String = redis::from_redis_value(info).unwrap_or_default();
        let facts = Facts::parse(&info);
        let config = config.remove(&host).unwrap_or_default();
        warnings.extend(check_server(&host, &facts, &config)?);
        masters.push(Persistence::new(&facts, &config));
    }
    if durability == Durability::Fsync
        && let Some(reason) = masters.iter().find_map(Persistence::objection_to_fsync)
    {
        return Err(OpenError::NotFsync { reason });
    }
    warnings.extend(masters.iter().find_map(Persistence::warning));
    checker.check_schema(schema_key).await?;
    Ok(Findings { warnings, durability_in_words: persistence::in_words(durability, &masters) })
}

/// After a reconnect the process continues whatever is found, and logs it.
pub(super) async fn warn_if_not_fsync(found: &Found, durability: Durability) {
    if durability != Durability::Fsync {
        return;
    }
    let config = match found.live.send(&persistence::config_get(persistence::PATTERNS[0])).await {
        Ok(answer) => persistence::read_config(answer).unwrap_or_default(),
        Err(_) => HashMap::new(),
    };
    if let Some(reason) = Persistence::new(&found.facts, &config).objection_to_fsync() {
        tracing::warn!(host = %found.host, reason, "durability \"fsync\" is not kept any more");
    }
}

fn check_server(
    host: &str,
    facts: &Facts,
    config: &HashMap<String, String>,
) -> Result<Option<String>, OpenError> {
    let address = host.to_owned();
    if !facts.is_new_enough() {
        return Err(OpenError::TooOld { address, found: facts.version.clone() });
    }
    if facts.is_loading {
        return Err(OpenError::Loading { address });
    }
    match facts.eviction_policy.as_ref().or_else(|| config.get("maxmemory-policy")) {
        Some(policy) if policy == "noeviction" => Ok(None),
        Some(policy) => Err(OpenError::Evicts { address, policy: policy.clone() }),
        None => Ok(Some(format!(
            "Redis at {host} does not say what it does when its memory is full. Make sure that maxmemory-policy is \
             noeviction: otherwise it evicts runs."
        ))),
    }
}

impl Checker<'_> {
    async fn ask(
        &self,
        action: &'static str,
        command: &redis::Cmd,
    ) -> Result<Vec<(String, Value)>, OpenError> {
        self.lane.ask_every_master(command).await.map_err(|error| self.explain(action, &error))
    }

    /// The settings of each master; empty where managed services forbid CONFIG.
    async fn config(&self) -> Result<HashMap<String, HashMap<String, String>>, OpenError> {
        let mut config: HashMap<String, HashMap<String, String>> = HashMap::new();
        for pattern in persistence::PATTERNS {
            let answers = match self.lane.ask_every_master(&persistence::config_get(pattern)).await {
                Ok(answers) => answers,
                Err(error) if judge(&error).kind == SendErrorKind::Refused => break,
                Err(error) => return Err(self.explain("CONFIG GET", &error)),
            };
            for (host, answer) in answers {
                let found =
                    persistence::read_config(answer).map_err(|error| self.explain("CONFIG GET", &error))?;
                config.entry(host).or_default().extend(found);
            }
        }
        Ok(config)
    }

    /// The first process to come writes the number; later ones compare it.
    async fn check_schema(&self, key: &str) -> Result<(), OpenError> {
        let mut claim = redis::cmd("SET");
        claim.arg(key).arg(SCHEMA).arg("NX");
        self.lane.send(&claim).await.map_err(|error| self.explain("SET of the schema", &error))?;
        let found = self.read(key).await.map_err(|error| OpenError::Schema {
            key: key.to_owned(),
            reason: self.address.hide_password(&error.to_string()),
        })?;
        match found.parse::<u64>() {
            Ok(found) if found > SCHEMA => Err(OpenError::NewerData { found, known: SCHEMA }),
            Ok(_) => Ok(()),
            Err(error) => Err(OpenError::Schema { key: key.to_owned(), reason: error.to_string() }),
        }
    }

    async fn read(&self, key: &str) -> RedisResult<String> {
        Ok(redis::from_redis_value(self.lane.send(redis::cmd("GET").arg(key)).await?)?)
    }

    fn explain(&self, action: &'static str, error: &RedisError) -> OpenError {
        let address = self.address.to_string();
        let reason = self.address.hide_password(&error.to_string());
        match error.code() {
            Some("NOAUTH" | "NOPERM" | "WRONGPASS") => OpenError::NotAllowed { address, reason },
            Some("READONLY") => OpenError::Replica { address },
            Some("LOADING") => OpenError::Loading { address },
            _ => OpenError::Check { address, action, reason },
        }
    }
}
