//! A recursive descent parser. Every recursion passes [`Parser::nested`], which counts the depth.
use super::error::{CompileError, shown};
use super::functions;
use super::lexer::{Spanned, Token, tokens};
use super::limits::DEPTH_MAX;
use super::number::Number;
use super::operators::{Level, Operator};
use super::syntax::{Link, Literal, Macro, Node, Program, RootMember, Unary};

type Parsed<T> = Result<T, CompileError>;

/// Reserved names. They can be members, but neither roots nor variables.
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Parses `source`. Its free names must be among `allowed`.
pub(super) fn parse(source: &str, allowed: &[&str]) -> Parsed<Program> {
    let mut parser = Parser {
        tokens: tokens(source)?,
        position: 0,
        depth: 0,
        allowed,
        locals: Vec::new(),
        roots: Vec::new(),
        members: Vec::new(),
    };
    let body = parser.expression()?;
    if *parser.peek() != Token::End {
        return Err(parser.unexpected("an operator or the end"));
    }
    Ok(Program { source: source.to_owned(), body, roots: parser.roots, members: parser.members })
}

struct Parser<'a> {
    tokens: Vec<Spanned>,
    position: usize,
    depth: usize,
    allowed: &'a [&'a str],
    /// Variables of the macros around the position, outermost first.
    locals: Vec<String>,
    roots: Vec<String>,
    members: Vec<RootMember>,
}

// Tokens.
impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.position).map_or(&Token::End, |spanned| &spanned.token)
    }

    fn offset(&self) -> usize {
        self.tokens.get(self.position).or(self.tokens.last()).map_or(0, |spanned| spanned.offset)
    }

    /// Moves the token out. The parser never looks back, so no clone is needed.
    fn take(&mut self) -> Token {
        let token = self
            .tokens
            .get_mut(self.position)
            .map_or(Token::End, |spanned| std::mem::replace(&mut spanned.token, Token::End));
        self.position += 1;
        token
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(next) if *next == symbol);
        self.position += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Parsed<()> {
        if self.eat(symbol) { Ok(()) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    fn unexpected(&self, wanted: &str) -> CompileError {
        let found = match self.peek() {
            Token::Int(_) | Token::Float(_) => "a number".to_owned(),
            Token::Text(_) => "a string".to_owned(),
            Token::Name(name) => format!("`{}`", shown(name)),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::End => "the end".to_owned(),
        };
        CompileError::new(format!("expected {wanted}, found {found}"), self.offset())
    }
}

// Operators.
impl Parser<'_> {
    /// Every recursion goes through here. It bounds the parser's stack by the nesting of the source, and the evaluator's by
    /// the height of the tree: `(a * b + c == d)` is one level of nesting, but three nodes high.
    fn nested(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<Node>) -> Parsed<Node> {
        if self.depth == DEPTH_MAX {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let node = parse(self)?;
        self.depth -= 1;
        if node.height() > DEPTH_MAX { Err(self.too_deep()) } else { Ok(node) }
    }

    fn too_deep(&self) -> CompileError {
        let message = format!("the expression is nested deeper than {DEPTH_MAX} levels");
        CompileError::new(message, self.offset())
    }

    fn expression(&mut self) -> Parsed<Node> {
        self.nested(|parser| {
            let condition = parser.operation(None)?;
            if parser.eat("?") { parser.conditional(condition) } else { Ok(condition) }
        })
    }

    /// Parses `a ? b : c ? d : e` in a loop, because users write it as a switch.
    fn conditional(&mut self, mut condition: Node) -> Parsed<Node> {
        let mut cases = Vec::new();
        loop {
            let consequence = self.expression()?;
            self.expect(":")?;
            cases.push((condition, consequence));
            condition = self.operation(None)?;
            if !self.eat("?") {
                return Ok(Node::Conditional { cases, otherwise: Box::new(condition) });
            }
        }
    }

    /// Precedence climbing: operands joined by operators that bind tighter than `outer`.
    fn operation(&mut self, outer: Option<Level>) -> Parsed<Node> {
        let mut left = self.unary()?;
        while let Some(operator) = self.operator().filter(|operator| Some(operator.level) > outer) {
            left = self.chain(left, operator.level)?;
        }
        Ok(left)
    }

    /// `first` and all operands joined to it by operators of exactly this level.
    fn chain(&mut self, first: Node, level: Level) -> Parsed<Node> {
        let mut rest = Vec::new();
        while let Some(operator) = self.operator().filter(|operator| operator.level == level) {
            self.take();
            rest.push((operator, self.nested(|parser| parser.operation(Some(level)))?));
        }
        Ok(Node::Fold { first: Box::new(first), rest })
    }

    fn operator(&self) -> Option<&'static Operator> {
        match self.peek() {
            Token::Symbol(symbol) => Operator::written(symbol),
            Token::Name(name) => Operator::written(name),
            Token::Int(_) | Token::Float(_) | Token::Text(_) | Token::End => None,
        }
    }

    fn unary(&mut self) -> Parsed<Node> {
        let mut operators = Vec::new();
        loop {
            if self.eat("!") {
                operators.push(Unary::Not);
            } else if self.eat("-") {
                operators.push(Unary::Negate);
            } else {
                break;
            }
        }
        if operators.last() == Some(&Unary::Negate) && *self.peek() == Token::Int(i64::MIN.unsigned_abs()) {
            // The smallest integer has no positive counterpart to negate.
            operators.pop();
            self.take();
            return Ok(unary(operators, Node::Literal(Literal::Number(Number::Int(i64::MIN)))));
        }
        let operand = self.path()?;
        Ok(unary(operators, operand))
    }
}

// Operands.
impl Parser<'_> {
    fn path(&mut self) -> Parsed<Node> {
        let mut base = self.primary()?;
        let mut links = Vec::new();
        while let Some(link) = self.link()? {
            match (&base, link) {
                (Node::Root(root), Link::Member(name)) if links.is_empty() => {
                    base = self.root_member(*root, name);
                }
                (Node::Root(root), Link::Index(Node::Literal(Literal::Text(name)))) if links.is_empty() => {
                    base = self.root_member(*root, name);
                }
                (_, link) => links.push(link),
            }
        }
        Ok(if links.is_empty() { base } else { Node::Path { base: Box::new(base), links } })
    }

    fn link(&mut self) -> Parsed<Option<Link>> {
        if self.eat("[") {
            let index = self.expression()?;
            self.expect("]")?;
            return Ok(Some(Link::Index(index)));
        }
        if !self.eat(".") {
            return Ok(None);
        }
        let offset = self.offset();
        let Token::Name(name) = self.peek() else { return Err(self.unexpected("a member's name")) };
        let name = name.clone();
        self.take();
        if !self.eat("(") {
            return Ok(Some(Link::Member(name)));
        }
        if let Some(kind) = Macro::named(&name) {
            return self.macro_call(kind).map(Some);
        }
        let link = if let Some(method) = functions::plain_method(&name) {
            Link::Call(method)
        } else if let Some(method) = functions::method(&name) {
            Link::Method(method, self.expression()?)
        } else {
            return Err(CompileError::new(format!("unknown method `{}`", shown(&name)), offset));
        };
        self.expect(")")?;
        Ok(Some(link))
    }

    fn macro_call(&mut self, kind: Macro) -> Parsed<Link> {
        let Token::Name(variable) = self.peek() else { return Err(self.unexpected("a variable's name")) };
        if KEYWORDS.contains(&variable.as_str()) {
            return Err(self.unexpected("a variable's name"));
        }
        self.locals.push(variable.clone());
        self.take();
        self.expect(",")?;
        let body = self.expression()?;
        self.expect(")")?;
        self.locals.pop();
        Ok(Link::Macro(kind, body))
    }

    fn primary(&mut self) -> Parsed<Node> {
        if self.eat("(") {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.eat("[") {
            return self.separated("]", Self::expression).map(Node::List);
        }
        if self.eat("{") {
            return self.separated("}", Self::entry).map(Node::Map);
        }
        if matches!(self.peek(), Token::Symbol(_) | Token::End) {
            return Err(self.unexpected("a value"));
        }
        let offset = self.offset();
        let literal = match self.take() {
            Token::Int(int) => match int.try_into() {
                Ok(int) => Literal::Number(Number::Int(int)),
                Err(_) => return Err(CompileError::new("the integer is too large", offset)),
            },
            Token::Float(float) => Literal::Number(Number::Float(float)),
            Token::Text(text) => Literal::Text(text),
            Token::Name(name) => return self.name(&name, offset),
            Token::Symbol(_) | Token::End => return Err(CompileError::new("expected a value", offset)),
        };
        Ok(Node::Literal(literal))
    }

    /// Items with commas between them, and perhaps after the last one, up to `close`.
    fn separated<T>(&mut self, close: &str, item: fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(item(self)?);
            if !self.eat(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(items)
    }

    fn entry(&mut self) -> Parsed<(Node, Node)> {
        let key = self.expression()?;
        self.expect(":")?;
        Ok((key, self.expression()?))
    }

    fn name(&mut self, name: &str, offset: usize) -> Parsed<Node> {
        match name {
            "null" => return Ok(Node::Literal(Literal::Null)),
            "true" => return Ok(Node::Literal(Literal::Bool(true))),
            "false" => return Ok(Node::Literal(Literal::Bool(false))),
            "in" => return Err(CompileError::new("expected a value, found `in`", offset)),
            _ => {}
        }
        if self.eat("(") {
            return self.call(name, offset);
        }
        if let Some(local) = self.locals.iter().rposition(|local| local == name) {
            return Ok(Node::Local(local));
        }
        if !self.allowed.contains(&name) {
            let allowed = self.allowed.join(", ");
            let message = format!("unknown name `{}` (available names: {allowed})", shown(name));
            return Err(CompileError::new(message, offset));
        }
        Ok(Node::Root(position_of(&mut self.roots, name.to_owned())))
    }

    fn root_member(&mut self, root: usize, name: String) -> Node {
        Node::RootMember(position_of(&mut self.members, RootMember { root, name }))
    }

    fn call(&mut self, name: &str, offset: usize) -> Parsed<Node> {
        let function = functions::function(name);
        if function.is_none() && name != "has" {
            return Err(CompileError::new(format!("unknown function `{}`", shown(name)), offset));
        }
        let argument_offset = self.offset();
        let argument = Box::new(self.expression()?);
        self.expect(")")?;
        match function {
            Some(function) => Ok(Node::Call { function, argument }),
            None if is_path(&argument) => Ok(Node::Has(argument)),
            None => Err(CompileError::new("has() requires a path such as `input.a.b`", argument_offset)),
        }
    }
}

fn unary(operators: Vec<Unary>, operand: Node) -> Node {
    if operators.is_empty() { operand } else { Node::Unary { operators, operand: Box::new(operand) } }
}

fn position_of<T: PartialEq>(known: &mut Vec<T>, wanted: T) -> usize {
    known.iter().position(|one| *one == wanted).unwrap_or_else(|| {
        known.push(wanted);
        known.len() - 1
    })
}

/// A name, followed by members and indexes only.
fn is_path(node: &Node) -> bool {
    let is_name = |node: &Node| matches!(node, Node::Root(_) | Node::RootMember(_) | Node::Local(_));
    let Node::Path { base, links } = node else { return is_name(node) };
    is_name(base) && links.iter().all(|link| matches!(link, Link::Member(_) | Link::Index(_)))
}

#[cfg(test)]
mod tests;
