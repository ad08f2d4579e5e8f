//! The compiled form. A chain of one operation is one node with a vector, so the depth of the tree is the nesting that the
//! parser counts, and walking or dropping it needs a bounded stack.

use super::functions::{Function, Method};
use super::number::Number;
use super::operators::Operator;

/// A whole expression: its tree, and the reads of the scope that the tree refers to by position.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) source: String,
    pub(super) body: Node,
    pub(super) roots: Vec<String>,
    pub(super) members: Vec<RootMember>,
}

/// A member of a root that the source names literally: `steps.build` or `steps['build']`.
#[derive(Debug, PartialEq)]
pub(super) struct RootMember {
    /// Position in [`Program::roots`].
    pub(super) root: usize,
    pub(super) name: String,
}

#[derive(Debug)]
pub(super) enum Node {
    Literal(Literal),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    /// Position in [`Program::roots`].
    Root(usize),
    /// Position in [`Program::members`].
    RootMember(usize),
    /// A macro's variable, counted from the outermost macro.
    Local(usize),
    /// `base.a[0].f()…`
    Path {
        base: Box<Node>,
        links: Vec<Link>,
    },
    /// Outermost operator first.
    Unary {
        operators: Vec<Unary>,
        operand: Box<Node>,
    },
    /// Operators of one level, from left to right.
    Fold {
        first: Box<Node>,
        rest: Vec<(&'static Operator, Node)>,
    },
    /// `a ? b : c ? d : e` has the cases (a, b) and (c, d).
    Conditional {
        cases: Vec<(Node, Node)>,
        otherwise: Box<Node>,
    },
    Call {
        function: Function,
        argument: Box<Node>,
    },
    /// `has(path)`. Not a function, because it needs the path and not its value.
    Has(Box<Node>),
}

#[derive(Debug, Clone)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
}

/// One step along a path.
#[derive(Debug)]
pub(super) enum Link {
    Member(String),
    Index(Node),
    /// `x.f()`
    Call(Function),
    /// `x.f(y)`
    Method(Method, Node),
    Macro(Macro, Node),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unary {
    Not,
    Negate,
}

/// `x.f(name, body)`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Macro {
    Map,
    Filter,
    All,
    Exists,
}

impl Node {
    /// The height of the tree, including this node.
    pub(super) fn height(&self) -> usize {
        let pairs = |pairs: &[(Node, Node)]| {
            pairs.iter().map(|(one, other)| one.height().max(other.height())).max().unwrap_or(0)
        };
        let below = match self {
            Self::Literal(_) | Self::Root(_) | Self::RootMember(_) | Self::Local(_) => 0,
            Self::List(nodes) => nodes.iter().map(Node::height).max().unwrap_or(0),
            Self::Map(entries) => pairs(entries),
            Self::Path { base, links } => {
                links.iter().filter_map(Link::node).map(Node::height).fold(base.height(), usize::max)
            }
            Self::Unary { operand: node, .. } | Self::Call { argument: node, .. } | Self::Has(node) => {
                node.height()
            }
            Self::Fold { first, rest } => {
                rest.iter().map(|(_, node)| node.height()).fold(first.height(), usize::max)
            }
            Self::Conditional { cases, otherwise } => pairs(cases).max(otherwise.height()),
        };
        below + 1
    }
}

impl Link {
    fn node(&self) -> Option<&Node> {
        match self {
            Self::Member(_) | Self::Call(_) => None,
            Self::Index(node) | Self::Method(_, node) | Self::Macro(_, node) => Some(node),
        }
    }
}

impl Macro {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "map" => Self::Map,
            "filter" => Self::Filter,
            "all" => Self::All,
            "exists" => Self::Exists,
            _ => return None,
        })
    }
}
