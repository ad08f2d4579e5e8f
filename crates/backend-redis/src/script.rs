//! Scripts, and how they are called: by hash, with a header that says for whom, when and under which request.

use interlock_model::lock::StageLock;
use interlock_model::{Fence, TenantId};
use redis::{Cmd, Value};

/// A verb as Redis runs it.
#[derive(Debug)]
pub(crate) struct Script {
    /// Of its file.
    pub(crate) name: &'static str,
    text: String,
    hash: String,
}

impl Script {
    /// `parts` are the shared pieces that the verb needs, and the verb last.
    pub(crate) fn of(name: &'static str, parts: &[&str]) -> Self {
        let text = parts.join("\n");
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { name, text, hash }
    }
}

/// What became of a refused call, in the verb's own words.
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

/// One call of a verb.
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    /// What it tries to do, for errors.
    pub(crate) action: &'static str,
    /// Whether it may change something.
    pub(crate) writes: bool,
    /// Whether it is only a look at whether there is something to do.
    pub(crate) is_poll: bool,
    pub(crate) home: Home,
    pub(crate) missing: Missing,
    /// The fence that the caller holds.
    pub(crate) held: Fence,
    pub(crate) arguments: Vec<Vec<u8>>,
}

impl Call {
    pub(crate) fn new(script: &'static Script, action: &'static str, home: Home) -> Self {
        Self {
            script,
            action,
            writes: true,
            is_poll: false,
            home,
            missing: Missing::Never,
            held: Fence::NONE,
            arguments: Vec::new(),
        }
    }

    pub(crate) fn write(script: &'static Script, action: &'static str, tenant: &TenantId) -> Self {
        Self::new(script, action, Home::Tenant(tenant.clone()))
    }

    pub(crate) fn read(script: &'static Script, action: &'static str, tenant: &TenantId) -> Self {
        Self { writes: false, ..Self::new(script, action, Home::Tenant(tenant.clone())) }
    }

    /// A verb on what belongs to no tenant.
    pub(crate) fn global(script: &'static Script, action: &'static str, writes: bool) -> Self {
        Self { writes, ..Self::new(script, action, Home::System) }
    }

    /// What the script's `missing` means.
    pub(crate) fn of(self, what: &'static str, id: impl std::fmt::Display) -> Self {
        Self { missing: Missing::Thing { what, id: id.to_string() }, ..self }
    }

    /// The fence that the script's `fenced` refuses.
    pub(crate) fn under(self, held: Fence) -> Self {
        Self { held, ..self }
    }

    pub(crate) fn reading(self) -> Self {
        Self { writes: false, ..self }
    }

    pub(crate) fn polling(self) -> Self {
        Self { is_poll: true, ..self }
    }

    pub(crate) fn with(mut self, argument: impl Argument) -> Self {
        self.arguments.push(argument.written());
        self
    }

    /// A list: how many, then each in turn.
    pub(crate) fn with_list<T>(
        mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut put: impl FnMut(&mut Self, T),
    ) -> Self {
        self.push(items.len());
        for item in items {
            put(&mut self, item);
        }
        self
    }

    pub(crate) fn push(&mut self, argument: impl Argument) {
        self.arguments.push(argument.written());
    }
}

/// How a value is written for a script.
pub(crate) trait Argument {
    fn written(self) -> Vec<u8>;
}

impl Argument for &str {
    fn written(self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

impl Argument for String {
    fn written(self) -> Vec<u8> {
        self.into_bytes()
    }
}

impl Argument for bool {
    fn written(self) -> Vec<u8> {
        if self { b"1".to_vec() } else { b"0".to_vec() }
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {
        $(impl Argument for $type {
            fn written(self) -> Vec<u8> {
                self.to_string().into_bytes()
            }
        })*
    };
}

numbers!(u8, u32, u64, i64, usize);

/// What is absent is written as nothing.
impl<T: Argument> Argument for Option<T> {
    fn written(self) -> Vec<u8> {
        self.map(Argument::written).unwrap_or_default()
    }
}

/// What stands before a script's own arguments.
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
    pub(crate) fn command(&self, script: &Script, arguments: &[Vec<u8>], in_full: bool) -> Cmd {
        let mut command = if in_full { redis::cmd("EVAL") } else { redis::cmd("EVALSHA") };
        command.arg(if in_full { &script.text } else { &script.hash });
        // One key, for the way to its node: all that a script touches shares its hash tag. And one that is never there:
        // while a Cluster moves the slot, its keys are on two nodes, and a script that saw half of them would admit
        // too much. With a key missing, Redis answers TRYAGAIN instead of running it.
        command.arg(2).arg(self.key).arg(format!("{}wf:never:{}", self.prefix, self.tag));
        command.arg(self.prefix).arg(self.tag).arg(self.lock_prefix);
        command.arg(self.now.written()).arg(self.fence_floor);
        command.arg(self.request).arg(self.is_repeat.written()).arg(self.is_cluster.written());
        for argument in arguments {
            command.arg(argument.as_slice());
        }
        command
    }
}

/// An answer, read from front to back.
pub(crate) struct Fields {
    script: &'static str,
    values: std::vec::IntoIter<Value>,
}

/// An answer that is not what the script promises: a bug, or somebody else's data under our names.
#[derive(Debug)]
pub(crate) struct Unreadable(pub(crate) String);

impl Fields {
    pub(crate) fn of(script: &'static str, value: Value) -> Result<Self, Unreadable> {
        if value == Value::Nil {
            return Ok(Self { script, values: Vec::new().into_iter() });
        }
        let values = value
            .into_sequence()
            .map_err(|other| Unreadable(format!("{script} answered {other:?} where a list was expected")))?;
        Ok(Self { script, values: values.into_iter() })
    }

    pub(crate) fn unreadable(&self, what: &str) -> Unreadable {
        Unreadable(format!("{} answered something that is no {what}", self.script))
    }

    /// Whether everything was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.as_slice().is_empty()
    }

    pub(crate) fn optional_text(&mut self) -> Result<Option<String>, Unreadable> {
        match self.values.next() {
            None | Some(Value::Nil) => Ok(None),
            Some(Value::BulkString(bytes)) => match String::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(self.unreadable("text")),
            },
            Some(Value::SimpleString(text)) => Ok(Some(text)),
            Some(Value::Int(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(self.unreadable("text")),
        }
    }

    /// What stands there, whether or not it is text.
    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Unreadable> {
        match self.values.next() {
            Some(Value::BulkString(bytes)) => Ok(bytes),
            _ => Err(self.unreadable("value")),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, Unreadable> {
        self.optional_text()?.ok_or_else(|| self.unreadable("text"))
    }

    /// Something that is written as text; none if it is absent or empty.
    pub(crate) fn optional<T: std::str::FromStr>(&mut self, what: &str) -> Result<Option<T>, Unreadable> {
        match self.optional_text()? {
            None => Ok(None),
            Some(text) if text.is_empty() => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| self.unreadable(what)),
        }
    }

    pub(crate) fn parsed<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, Unreadable> {
        self.optional(what)?.ok_or_else(|| self.unreadable(what))
    }

    pub(crate) fn fence(&mut self) -> Result<Fence, Unreadable> {
        self.parsed("fence").map(Fence::new)
    }

    pub(crate) fn time(&mut self) -> Result<interlock_model::Timestamp, Unreadable> {
        self.parsed("time").map(interlock_model::Timestamp::from_millis)
    }

    pub(crate) fn optional_time(&mut self) -> Result<Option<interlock_model::Timestamp>, Unreadable> {
        Ok(self.optional("time")?.map(interlock_model::Timestamp::from_millis))
    }

    pub(crate) fn json<T: serde::de::DeserializeOwned>(&mut self, what: &str) -> Result<T, Unreadable> {
        let text = self.text()?;
        serde_json::from_str(&text).map_err(|error| Unreadable(format!("a {what} cannot be read: {error}")))
    }

    /// A list inside the answer.
    pub(crate) fn list(&mut self) -> Result<Self, Unreadable> {
        Self::of(self.script, self.values.next().unwrap_or(Value::Nil))
    }

    /// A page of a list: where the next one begins, then the items.
    pub(crate) fn page<T>(
        mut self,
        read: impl FnMut(&mut Self) -> Result<T, Unreadable>,
    ) -> Result<interlock_backend::Page<T>, Unreadable> {
        let next = self.optional_text()?;
        Ok(interlock_backend::Page { items: self.list()?.each(read)?, next })
    }

    /// Each of what is left, turned into something.
    pub(crate) fn each<T>(
        mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Unreadable>,
    ) -> Result<Vec<T>, Unreadable> {
        let mut items = Vec::new();
        while !self.is_empty() {
            items.push(read(&mut self)?);
        }
        Ok(items)
    }
}
