//! Evaluates the compiled form. The parser bounds the depth of the tree and thereby of the recursion.
use std::collections::BTreeMap;
use std::rc::Rc;

use super::budget::Budget;
use super::compare;
use super::error::EvaluateError;
use super::functions::ITEM_BYTES;
use super::number::Arithmetic;
use super::operators::{Operation, Operator};
use super::scope::{Read, Reads};
use super::syntax::{Link, Macro, Node, Unary};
use super::value::{Evaluated, List, Map, Text, Value, mismatch, mismatch_of_two};

/// One evaluation. `'e` is the lifetime of the compiled form and of the reads.
pub(super) struct Evaluator<'e, 's> {
    pub(super) reads: &'e Reads<'s>,
    pub(super) budget: &'e mut Budget,
    /// Variables of the macros around the node, outermost first.
    pub(super) locals: Vec<Value<'e>>,
}

impl<'e> Evaluator<'e, '_> {
    /// This function recurs, so every arm is a call to keep its stack frame small.
    pub(super) fn evaluate(&mut self, node: &'e Node) -> Evaluated<'e> {
        self.budget.step()?;
        match node {
            Node::Literal(literal) => Ok(Value::literal(literal)),
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Root(position) => Ok(self.root(*position)),
            Node::RootMember(position) => self.root_member(*position),
            Node::Local(position) => Ok(self.local(*position)),
            Node::Path { base, links } => self.path(base, links),
            Node::Unary { operators, operand } => self.unary(operators, operand),
            Node::Fold { first, rest } => self.fold(first, rest),
            Node::Conditional { cases, otherwise } => self.conditional(cases, otherwise),
            Node::Call { function, argument } => {
                let argument = self.evaluate(argument)?;
                function(&argument, self.budget)
            }
            Node::Has(path) => self.has(path),
        }
    }

    fn list(&mut self, nodes: &'e [Node]) -> Evaluated<'e> {
        self.budget.allocate(nodes.len() * ITEM_BYTES)?;
        let mut items = Vec::with_capacity(nodes.len());
        for node in nodes {
            items.push(self.evaluate(node)?);
        }
        Ok(Value::list(items))
    }

    fn map(&mut self, nodes: &'e [(Node, Node)]) -> Evaluated<'e> {
        let mut entries = BTreeMap::new();
        for (key, value) in nodes {
            let key = self.evaluate(key)?;
            let Value::Text(key) = &key else {
                return Err(mismatch("a map literal", "strings as keys", &key));
            };
            self.budget.allocate(key.as_str().len() + ITEM_BYTES)?;
            let value = self.evaluate(value)?;
            if entries.insert(key.as_str().to_owned(), value).is_some() {
                return Err(EvaluateError::DuplicateKey);
            }
        }
        Ok(Value::Map(Map::Built(Rc::new(entries))))
    }

    fn conditional(&mut self, cases: &'e [(Node, Node)], otherwise: &'e Node) -> Evaluated<'e> {
        for (condition, consequence) in cases {
            if self.evaluate(condition)?.is_true() {
                return self.evaluate(consequence);
            }
        }
        self.evaluate(otherwise)
    }

    fn unary(&mut self, operators: &'e [Unary], operand: &'e Node) -> Evaluated<'e> {
        let mut value = self.evaluate(operand)?;
        for operator in operators.iter().rev() {
            self.budget.step()?;
            value = match operator {
                Unary::Not => Value::Bool(!value.is_true()),
                Unary::Negate if value.is_number() => {
                    Value::Number(value.number().ok_or(EvaluateError::NotFinite)?.negate()?)
                }
                Unary::Negate => return Err(mismatch("-", "a number", &value)),
            };
        }
        Ok(value)
    }

    fn fold(&mut self, first: &'e Node, rest: &'e [(&'static Operator, Node)]) -> Evaluated<'e> {
        let mut left = self.evaluate(first)?;
        for (operator, right) in rest {
            left = self.operate(operator, left, right)?;
        }
        Ok(left)
    }
}

// Operators.
impl<'e> Evaluator<'e, '_> {
    fn operate(&mut self, operator: &Operator, left: Value<'e>, right: &'e Node) -> Evaluated<'e> {
        let Operator { symbol, operation, .. } = *operator;
        if matches!(operation, Operation::Or) && left.is_true() {
            return Ok(Value::Bool(true));
        }
        if matches!(operation, Operation::And) && !left.is_true() {
            return Ok(Value::Bool(false));
        }
        let right = self.evaluate(right)?;
        let truth = match operation {
            Operation::Or | Operation::And => right.is_true(),
            Operation::Equal => compare::equal(&left, &right, self.budget)?,
            Operation::NotEqual => !compare::equal(&left, &right, self.budget)?,
            Operation::Order(is_met) => is_met(compare::order(symbol, &left, &right, self.budget)?),
            Operation::In => compare::is_in(&left, &right, self.budget)?,
            Operation::Arithmetic(Arithmetic::Add) => return self.add(left, right),
            Operation::Arithmetic(arithmetic) => return compute(symbol, arithmetic, &left, &right),
            Operation::Remainder => return remainder(&left, &right),
        };
        Ok(Value::Bool(truth))
    }

    fn add(&mut self, left: Value<'e>, right: Value<'e>) -> Evaluated<'e> {
        match (left, right) {
            (Value::Text(left), Value::Text(right)) => self.concatenate(left, right.as_str()),
            (Value::List(left), Value::List(right)) => self.append(left, &right),
            (left, right) => compute("+", Arithmetic::Add, &left, &right),
        }
    }

    /// Grows an unshared `left` in place, so that a chain of `+` is linear in its result.
    fn concatenate(&mut self, left: Text<'e>, right: &str) -> Evaluated<'e> {
        self.budget.allocate(right.len())?;
        let mut text = match left {
            Text::Built(text) if Rc::strong_count(&text) == 1 => text,
            Text::Given(_) | Text::Built(_) => {
                self.budget.allocate(left.as_str().len())?;
                Rc::new(left.as_str().to_owned())
            }
        };
        Rc::make_mut(&mut text).push_str(right);
        Ok(Value::Text(Text::Built(text)))
    }

    fn append(&mut self, left: List<'e>, right: &List<'e>) -> Evaluated<'e> {
        self.budget.allocate(right.len().saturating_mul(ITEM_BYTES))?;
        let mut items = match left {
            List::Built(items) if Rc::strong_count(&items) == 1 => items,
            List::Given(_) | List::Built(_) => {
                self.budget.allocate(left.len().saturating_mul(ITEM_BYTES))?;
                Rc::new(left.iter().collect())
            }
        };
        Rc::make_mut(&mut items).extend(right.iter());
        Ok(Value::List(List::Built(items)))
    }
}

// Names and paths.
impl<'e> Evaluator<'e, '_> {
    fn root(&self, position: usize) -> Value<'e> {
        self.reads.root(position).map_or(Value::Null, Value::given)
    }

    fn local(&self, position: usize) -> Value<'e> {
        self.locals.get(position).cloned().unwrap_or(Value::Null)
    }

    fn root_member(&self, position: usize) -> Evaluated<'e> {
        match self.reads.member(position) {
            Read::Value(value) => Ok(value.map_or(Value::Null, Value::given)),
            Read::WithinRoot { root, name } => member(&root.map_or(Value::Null, Value::given), name),
        }
    }

    fn path(&mut self, base: &'e Node, links: &'e [Link]) -> Evaluated<'e> {
        let mut value = self.evaluate(base)?;
        for link in links {
            self.budget.step()?;
            value = self.follow(value, link)?;
        }
        Ok(value)
    }

    fn follow(&mut self, value: Value<'e>, link: &'e Link) -> Evaluated<'e> {
        match link {
            Link::Member(name) => member(&value, name),
            Link::Index(key) => {
                let key = self.key(key)?;
                value.index(&key).ok_or_else(|| {
                    mismatch_of_two("an index", "a list and an integer, or a map and a string", &value, &key)
                })
            }
            Link::Call(function) => function(&value, self.budget),
            Link::Method(method, argument) => {
                let argument = self.evaluate(argument)?;
                method(&value, &argument, self.budget)
            }
            Link::Macro(kind, body) => self.macro_call(*kind, value, body),
        }
    }

    /// An index. A long string is charged, because the map compares it.
    fn key(&mut self, node: &'e Node) -> Evaluated<'e> {
        let key = self.evaluate(node)?;
        if let Value::Text(text) = &key {
            self.budget.read(text.as_str().len())?;
        }
        Ok(key)
    }

    /// False if the path evaluates to null or to a type error.
    fn has(&mut self, path: &'e Node) -> Evaluated<'e> {
        let (base, links): (&Node, &[Link]) =
            if let Node::Path { base, links } = path { (base, links) } else { (path, &[]) };
        let mut value = match self.evaluate(base) {
            Err(EvaluateError::Type { .. }) => return Ok(Value::Bool(false)),
            value => value?,
        };
        for link in links {
            self.budget.step()?;
            let next = match link {
                Link::Member(name) => value.member(name),
                Link::Index(key) => {
                    let key = self.key(key)?;
                    value.index(&key)
                }
                Link::Call(_) | Link::Method(..) | Link::Macro(..) => None,
            };
            let Some(next) = next else { return Ok(Value::Bool(false)) };
            value = next;
        }
        Ok(Value::Bool(!matches!(value, Value::Null)))
    }

    fn macro_call(&mut self, kind: Macro, value: Value<'e>, body: &'e Node) -> Evaluated<'e> {
        let Value::List(list) = value else { return Err(mismatch("a list macro", "a list", &value)) };
        let mut built = Vec::new();
        for item in list.iter() {
            self.budget.step()?;
            self.locals.push(item.clone());
            let result = self.evaluate(body)?;
            self.locals.pop();
            let kept = match (kind, result.is_true()) {
                (Macro::All, false) => return Ok(Value::Bool(false)),
                (Macro::Exists, true) => return Ok(Value::Bool(true)),
                (Macro::Map, _) => result,
                (Macro::Filter, true) => item,
                (Macro::All, true) | (Macro::Exists | Macro::Filter, false) => continue,
            };
            self.budget.allocate(ITEM_BYTES)?;
            built.push(kept);
        }
        Ok(match kind {
            Macro::Map | Macro::Filter => Value::list(built),
            Macro::All => Value::Bool(true),
            Macro::Exists => Value::Bool(false),
        })
    }
}

fn member<'e>(value: &Value<'e>, name: &str) -> Evaluated<'e> {
    value.member(name).ok_or_else(|| mismatch("a member access", "a map", value))
}

fn compute<'e>(
    symbol: &'static str,
    arithmetic: Arithmetic,
    left: &Value<'e>,
    right: &Value<'e>,
) -> Evaluated<'e> {
    if !left.is_number() || !right.is_number() {
        let is_sum = arithmetic == Arithmetic::Add;
        let needs = if is_sum { "two numbers, two strings or two lists" } else { "two numbers" };
        return Err(mismatch_of_two(symbol, needs, left, right));
    }
    let (Some(left), Some(right)) = (left.number(), right.number()) else {
        return Err(EvaluateError::NotFinite);
    };
    left.compute(arithmetic, right).map(Value::Number)
}

/// Defined for integers only, as in CEL.
fn remainder<'e>(left: &Value<'e>, right: &Value<'e>) -> Evaluated<'e> {
    use super::number::Number::Int;
    match (left.number(), right.number()) {
        (Some(Int(_)), Some(Int(0))) => Err(EvaluateError::DivisionByZero),
        (Some(Int(left)), Some(Int(right))) => {
            left.checked_rem(right).map(Value::int).ok_or(EvaluateError::Overflow)
        }
        _ => Err(mismatch_of_two("%", "two integers", left, right)),
    }
}
