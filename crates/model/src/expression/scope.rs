//! Where the values of an expression's names come from.
use std::borrow::Cow;
use std::cell::OnceCell;

use serde_json::{Map, Value as Json};

use super::syntax::Program;

/// The names that an expression can read. One evaluation asks for each root, and for each member that the
/// source names literally, at most once and only when it is reached; so a scope may build values on demand.
pub trait Scope {
    /// The value of `name`; none when it is not there (which reads as null).
    fn root(&self, name: &str) -> Option<Cow<'_, Json>>;

    /// The value of `root.member`, asked before the whole root is.
    fn member(&self, root: &str, member: &str) -> Member<'_>;
}

/// The answer to "what is this member of this root?".
#[derive(Debug, Clone)]
#[must_use]
pub enum Member<'a> {
    Found(Cow<'a, Json>),
    /// The root has no such member, which reads as null.
    Missing,
    /// The scope does not know the members of this root one by one: ask for the whole root.
    AskRoot,
}

/// Values that are there already.
impl Scope for Map<String, Json> {
    fn root(&self, name: &str) -> Option<Cow<'_, Json>> {
        self.get(name).map(Cow::Borrowed)
    }

    fn member(&self, _root: &str, _member: &str) -> Member<'_> {
        Member::AskRoot
    }
}

/// What one evaluation has read. It owns what the scope built, so that all values of the evaluation borrow.
pub(super) struct Reads<'s> {
    scope: &'s dyn Scope,
    program: &'s Program,
    roots: Vec<OnceCell<Option<Cow<'s, Json>>>>,
    members: Vec<OnceCell<Member<'s>>>,
}

impl<'s> Reads<'s> {
    pub(super) fn new(scope: &'s dyn Scope, program: &'s Program) -> Self {
        let roots = program.roots.iter().map(|_| OnceCell::new()).collect();
        let members = program.members.iter().map(|_| OnceCell::new()).collect();
        Self { scope, program, roots, members }
    }

    pub(super) fn root(&self, position: usize) -> Option<&Json> {
        let read = || self.scope.root(&self.program.roots[position]);
        self.roots[position].get_or_init(read).as_deref()
    }

    /// The member, or the whole root and the name to look for in it.
    pub(super) fn member(&self, position: usize) -> Read<'_> {
        let member = &self.program.members[position];
        let read = || self.scope.member(&self.program.roots[member.root], &member.name);
        match self.members[position].get_or_init(read) {
            Member::Found(value) => Read::Value(Some(value)),
            Member::Missing => Read::Value(None),
            Member::AskRoot => Read::WithinRoot { root: self.root(member.root), name: &member.name },
        }
    }
}

pub(super) enum Read<'a> {
    Value(Option<&'a Json>),
    WithinRoot { root: Option<&'a Json>, name: &'a str },
}
