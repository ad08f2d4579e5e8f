//! Scripts, and how they are called: by hash, with named arguments.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use interlock_backend::Verb;
use interlock_backend::tenants::LimitScope;
use interlock_model::limit::document::{OnFull, QueueOrder};
use interlock_model::lock::LockName;
use interlock_model::{InstanceId, Resource, TenantId};
use redis::Cmd;
use serde::Serialize;

use crate::pieces;
use crate::texts::{LargeText, Sent};

/// Lua that Redis runs as one step.
#[derive(Debug)]
pub(crate) struct Script {
    /// Of its file.
    pub(crate) name: &'static str,
    text: String,
    hash: String,
}

impl Script {
    /// The script of this name: `lua/<name>.lua`. Its first use assembles it.
    pub(crate) fn named(name: &str) -> &'static Self {
        static SCRIPTS: LazyLock<HashMap<&str, OnceLock<Script>>> =
            LazyLock::new(|| pieces::SCRIPTS.iter().map(|(name, _)| (*name, OnceLock::new())).collect());
        let script = SCRIPTS.get(name).unwrap_or_else(|| panic!("there is no {name}.lua"));
        script.get_or_init(|| {
            let (name, text) = pieces::SCRIPTS.iter().find(|(known, _)| *known == name).expect("it is known");
            let text = pieces::assemble(text).unwrap_or_else(|error| panic!("{name}.lua {error}"));
            let hash = redis::Script::new(&text).get_hash().to_owned();
            Self { name, text, hash }
        })
    }
}

/// Whose keys a script touches. All of them share one hash tag.
#[derive(Clone)]
pub(crate) enum Home {
    Tenant(TenantId),
    /// What belongs to no tenant.
    System,
    /// What belongs to one lock.
    Lock(LockName),
}

impl Home {
    pub(crate) fn tenant(&self) -> Option<&TenantId> {
        match self {
            Self::Tenant(tenant) | Self::Lock(LockName::Of(tenant, _) | LockName::Admission(tenant)) => {
                Some(tenant)
            }
            Self::System | Self::Lock(LockName::Stage(_)) => None,
        }
    }

    /// The name of the lock in keys, and its kind.
    pub(crate) fn lock(&self) -> Option<(String, &'static str)> {
        match self {
            Self::Lock(LockName::Of(_, resource)) => Some((name_of(resource), "user")),
            Self::Lock(LockName::Stage(stage)) => Some((stage.key().to_owned(), "stage")),
            // No resource has this name: a '%' in one is written as two digits more.
            Self::Lock(LockName::Admission(_)) => Some(("%admission".to_owned(), "admission")),
            Self::Tenant(_) | Self::System => None,
        }
    }
}

impl From<&TenantId> for Home {
    fn from(tenant: &TenantId) -> Self {
        Self::Tenant(tenant.clone())
    }
}

impl From<&LockName> for Home {
    fn from(lock: &LockName) -> Self {
        Self::Lock(lock.clone())
    }
}

impl From<&LimitScope> for Home {
    fn from(scope: &LimitScope) -> Self {
        match scope {
            LimitScope::System => Self::System,
            LimitScope::Tenant(tenant) => Self::Tenant(tenant.clone()),
        }
    }
}

/// The name of a resource in keys, and in cursors, where '/' separates parts.
pub(crate) fn name_of(resource: &Resource) -> String {
    resource.as_str().replace('%', "%25").replace('/', "%2F")
}

/// What a script's refusal `missing` means: what is missing, and its id.
pub(crate) type Missing = Option<(&'static str, String)>;

/// One call of a script.
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    /// What it tries to do, for errors.
    pub(crate) action: &'static str,
    /// Whether it may change something.
    pub(crate) writes: bool,
    /// Whether it only checks whether there is something to do.
    pub(crate) is_poll: bool,
    pub(crate) home: Home,
    pub(crate) missing: Missing,
    pub(crate) arguments: Vec<u8>,
    /// Of each start in a batch of them, what decides, then what is written.
    pub(crate) starts: Vec<[Vec<u8>; 2]>,
    /// What goes ahead of it, each time that it is sent.
    pub(crate) texts: Vec<LargeText>,
    /// What has gone ahead of it.
    pub(crate) sent: Vec<Sent>,
}

impl Call {
    /// A call of a script on behalf of a verb.
    pub(crate) fn on_behalf_of<V: Verb>(script: &str, home: impl Into<Home>, arguments: Arguments) -> Self {
        Self { writes: V::WRITES, home: home.into(), ..Self::read(script, V::ACTION, arguments) }
    }

    /// A call of a script that belongs to no verb and no tenant, and changes nothing that must last.
    pub(crate) fn read(script: &str, action: &'static str, arguments: Arguments) -> Self {
        Self {
            script: Script::named(script),
            action,
            writes: false,
            is_poll: false,
            home: Home::System,
            missing: None,
            arguments: arguments.packed(),
            starts: Vec::new(),
            texts: Vec::new(),
            sent: Vec::new(),
        }
    }

    pub(crate) fn polling(self) -> Self {
        Self { is_poll: true, ..self }
    }
}

/// Arguments of a script by name: one `MessagePack` map, which Lua reads with `cmsgpack`.
#[derive(Default)]
pub(crate) struct Arguments {
    count: u32,
    fields: Vec<u8>,
}

impl Arguments {
    pub(crate) fn with(mut self, name: &'static str, value: impl Serialize) -> Self {
        self.count += 1;
        pack_into(&mut self.fields, name);
        pack_into(&mut self.fields, &value);
        self
    }

    pub(crate) fn packed(self) -> Vec<u8> {
        let mut packed = Vec::with_capacity(self.fields.len() + 5);
        packed.push(0xdf);
        packed.extend_from_slice(&self.count.to_be_bytes());
        packed.extend(self.fields);
        packed
    }
}

/// A value as a script reads it: a struct becomes a table with its fields.
pub(crate) fn packed(value: &(impl Serialize + ?Sized)) -> Vec<u8> {
    let mut packed = Vec::new();
    pack_into(&mut packed, value);
    packed
}

fn pack_into(packed: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    rmp_serde::encode::write_named(packed, value).expect("arguments are plain data");
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What every call of a script has beside its own arguments. What is absent, empty or false is left out: Redis unpacks
/// the rest once per call.
#[derive(Serialize)]
pub(crate) struct Header<'a> {
    #[serde(skip)]
    pub(crate) key: &'a str,
    pub(crate) prefix: &'a str,
    pub(crate) tag: &'a str,
    pub(crate) lock_prefix: &'a str,
    /// The name of the lock that the call is about, in keys, and its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lock: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lock_kind: Option<&'static str>,
    /// On a Cluster a script may only touch keys of its own node, so that its locks carry the tag, too.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) is_cluster: bool,
    /// In milliseconds; none for the server's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) now: Option<u64>,
    pub(crate) fence_floor: u64,
    pub(crate) request: &'a str,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) is_repeat: bool,
    /// Large documents that are in Redis already.
    #[serde(skip_serializing_if = "<[Sent]>::is_empty")]
    pub(crate) sent: &'a [Sent],
    /// The system's limits, for tenants without their own.
    pub(crate) runs_max: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) on_full: Option<OnFull>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queued_max: Option<u32>,
    /// In milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue_wait: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue_order: Option<QueueOrder>,
    /// In milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_retention: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_bytes_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_bytes_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workflows_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workflow_versions_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workers_max: Option<u32>,
    /// Whose leases no longer count, and which of this process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) gone_instances: Vec<InstanceId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) doubtful_leases: Vec<String>,
}

impl Header<'_> {
    /// The command that runs the script. `in_full`: with its text, for a server that does not know it yet.
    pub(crate) fn command(&self, call: &Call, in_full: bool) -> Cmd {
        let script = call.script;
        let mut command = if in_full { redis::cmd("EVAL") } else { redis::cmd("EVALSHA") };
        command.arg(if in_full { &script.text } else { &script.hash });
        // One key, for the way to its node: all that a script touches shares its hash tag. And one that is never there:
        // while a Cluster moves the slot, its keys are on two nodes, and a script that saw half of them would admit
        // too much. With a key missing, Redis answers TRYAGAIN instead of running it.
        command.arg(2).arg(self.key).arg(format!("{}wf:never:{}", self.prefix, self.tag));
        command.arg(packed(self)).arg(&call.arguments);
        for part in call.starts.iter().flatten() {
            command.arg(part);
        }
        command
    }
}
