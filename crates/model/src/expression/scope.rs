//! The source of values for the names in an expression.
use std::borrow::Cow;
use std::cell::OnceCell;

use serde_json::{Map, Value as Json};

use super::syntax::Program;

/// The names that an expression can read. One evaluation reads each root, and each member that the source names literally,
/// at most once and only on demand, so a scope may build values lazily.
pub trait Scope {
    /// The value of `name`; none reads as null.
    fn root(&self, name: &str) -> Option<Cow<'_, Json>>;

    /// The value of `root.member`, read before the whole root.
    fn member(&self, root: &str, member: &str) -> Member<'_>;
}

#[derive(Debug, Clone)]
#[must_use]
pub enum Member<'a> {
    Found(Cow<'a, Json>),
    /// The root has no such member; it reads as null.
    Missing,
    /// The scope has no members of this root: read the whole root.
    AskRoot,
}

impl Scope for Map<String, Json> {
    fn root(&self, name: &str) -> Option<Cow<'_, Json>> {
        self.get(name).map(Cow::Borrowed)
    }

    fn member(&self, _root: &str, _member: &str) -> Member<'_> {
        Member::AskRoot
    }
}

/// The reads of one evaluation. It owns the values that the scope builds, so that the evaluation can borrow them.
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

    /// The member, or the whole root and the name to find in it.
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
