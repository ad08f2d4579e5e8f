//! Scripts, and how they are called: by hash, with one map of named arguments.

use interlock_backend::{PageRequest, Verb};
use interlock_model::lock::StageLock;
use interlock_model::{Fence, TenantId};
use redis::Cmd;

use crate::arguments::{Argument, Arguments};
use crate::pieces;
use crate::store::Scripted;

/// Lua that Redis runs as one step.
#[derive(Debug)]
pub(crate) struct Script {
    /// Of its file.
    pub(crate) name: &'static str,
    text: String,
    hash: String,
}

impl Script {
    /// Puts the shared pieces that `text` names in its first line before it.
    pub(crate) fn assemble(name: &'static str, text: &'static str) -> Self {
        let text = pieces::assemble(text).unwrap_or_else(|error| panic!("{name}.lua {error}"));
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { name, text, hash }
    }
}

/// The script of this name, assembled at its first use: `lua/<name>.lua`.
macro_rules! script {
    ($name:literal) => {{
        static SCRIPT: std::sync::LazyLock<$crate::script::Script> = std::sync::LazyLock::new(|| {
            $crate::script::Script::assemble($name, include_str!(concat!("lua/", $name, ".lua")))
        });
        &SCRIPT
    }};
}
pub(crate) use script;

/// What a script's refusal `missing` means.
pub(crate) enum Missing {
    /// The script never says that something is missing.
    Never,
    Thing {
        what: &'static str,
        id: String,
    },
}

/// Whose keys a script touches. All of them share one hash tag.
pub(crate) enum Home {
    Tenant(TenantId),
    /// What belongs to no tenant.
    System,
    /// A lock of our own stages, whose key has a name that people know and thus no tag: the name itself is the tag of
    /// all that belongs to it.
    Stage(StageLock),
}

impl From<&TenantId> for Home {
    fn from(tenant: &TenantId) -> Self {
        Self::Tenant(tenant.clone())
    }
}

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
    /// The fence that the caller holds.
    pub(crate) held: Fence,
    pub(crate) arguments: Arguments,
}

impl Call {
    /// A call of the script of a verb.
    pub(crate) fn to<V: Scripted>(home: impl Into<Home>) -> Self {
        Self::for_verb::<V>(V::script(), home)
    }

    /// A call of another script on behalf of a verb.
    pub(crate) fn for_verb<V: Verb>(script: &'static Script, home: impl Into<Home>) -> Self {
        Self { writes: V::WRITES, ..Self::read(script, V::ACTION, home) }
    }

    /// A call of a script that belongs to no verb and changes nothing that must last.
    pub(crate) fn read(script: &'static Script, action: &'static str, home: impl Into<Home>) -> Self {
        Self {
            script,
            action,
            writes: false,
            is_poll: false,
            home: home.into(),
            missing: Missing::Never,
            held: Fence::NONE,
            arguments: Arguments::default(),
        }
    }

    /// What the script's refusal `missing` means.
    pub(crate) fn of(self, what: &'static str, id: impl std::fmt::Display) -> Self {
        Self { missing: Missing::Thing { what, id: id.to_string() }, ..self }
    }

    /// The fence that the script's refusal `fenced` is about.
    pub(crate) fn under(self, held: Fence) -> Self {
        Self { held, ..self }
    }

    pub(crate) fn polling(self) -> Self {
        Self { is_poll: true, ..self }
    }

    /// Which page of a list is asked for.
    pub(crate) fn page(self, page: &PageRequest) -> Self {
        self.with("after", page.after.as_ref().filter(|after| !after.is_empty())).with("limit", page.limit)
    }

    pub(crate) fn with(mut self, name: &'static str, argument: impl Argument) -> Self {
        self.arguments.put(name, argument);
        self
    }
}

/// What every call of a script has beside its own arguments.
pub(crate) struct Header<'a> {
    pub(crate) key: &'a str,
    pub(crate) prefix: &'a str,
    pub(crate) tag: &'a str,
    pub(crate) lock_prefix: &'a str,
    /// On a Cluster a script may only touch keys of its own node, so that its locks carry the tag, too.
    pub(crate) is_cluster: bool,
    /// In milliseconds; none for the server's own.
    pub(crate) now: Option<u64>,
    pub(crate) fence_floor: u64,
    pub(crate) request: &'a str,
    pub(crate) is_repeat: bool,
}

impl Header<'_> {
    /// The command that runs `script`. `in_full`: with its text, for a server that does not know it yet.
    pub(crate) fn command(&self, script: &Script, arguments: &Arguments, in_full: bool) -> Cmd {
        let mut command = if in_full { redis::cmd("EVAL") } else { redis::cmd("EVALSHA") };
        command.arg(if in_full { &script.text } else { &script.hash });
        // One key, for the way to its node: all that a script touches shares its hash tag. And one that is never there:
        // while a Cluster moves the slot, its keys are on two nodes, and a script that saw half of them would admit
        // too much. With a key missing, Redis answers TRYAGAIN instead of running it.
        command.arg(2).arg(self.key).arg(format!("{}wf:never:{}", self.prefix, self.tag));
        let header = Arguments::default()
            .with("prefix", self.prefix)
            .with("tag", self.tag)
            .with("lock_prefix", self.lock_prefix)
            .with("is_cluster", self.is_cluster)
            .with("now", self.now)
            .with("fence_floor", Some(self.fence_floor).filter(|floor| *floor > 0))
            .with("request", self.request)
            .with("is_repeat", self.is_repeat);
        command.arg(header.packed_with(arguments));
        command
    }
}
