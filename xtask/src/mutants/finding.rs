//! Finds every place of a Rust file that can be mutated.

#![expect(clippy::wildcard_enum_match_arm, reason = "most kinds of expressions are not mutated")]

use std::ops::Range;

use anyhow::{Context as _, Result};
use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, Signature, Stmt, Token, UnOp};

use super::mutant::{Mutant, Piece};
use super::returned::returned;

/// Macros whose arguments are code of this project, written like a call.
const TRANSPARENT: [&str; 2] = ["decide", "look"];

/// The mutants of one file, in its order.
pub(crate) fn find(file: &str, text: &str) -> Result<Vec<Mutant>> {
    let parsed = syn::parse_file(text).with_context(|| format!("cannot parse {file}"))?;
    let mut finder = Finder { file, text, path: Vec::new(), found: Vec::new() };
    finder.visit_file(&parsed);
    Ok(finder.found)
}

struct Finder<'a> {
    file: &'a str,
    text: &'a str,
    /// The type and the functions around the place.
    path: Vec<String>,
    found: Vec<Mutant>,
}

impl Finder<'_> {
    fn text_of(&self, range: &Range<usize>) -> &str {
        &self.text[range.clone()]
    }

    fn add(&mut self, place: Range<usize>, change: String, pieces: Vec<Piece>) {
        let line = self.text[..place.start].matches('\n').count() + 1;
        let (file, function) = (self.file.to_owned(), self.path.join("::"));
        self.found.push(Mutant { file, line, function, change, place, pieces });
    }

    /// An expression that becomes another one of the same type.
    fn replace(&mut self, place: Range<usize>, by: Vec<Piece>, shown: &str) {
        let change = format!("`{}` to `{shown}`", one_line(self.text_of(&place)));
        let mut pieces = vec![text("(if "), Piece::IsSelected, text(" { ")];
        pieces.extend(by);
        pieces.extend([text(" } else { "), Piece::Source(place.clone()), text(" })")]);
        self.add(place, change, pieces);
    }

    /// A condition that always holds, or never.
    fn settle(&mut self, condition: &Expr, answers: &[bool]) {
        if has_let(condition) {
            return;
        }
        let place = range(condition.span());
        for answer in answers {
            let change = format!("condition `{}` to `{answer}`", one_line(self.text_of(&place)));
            let (before, after) = if *answer { ("(", " || (") } else { ("(!", " && (") };
            let pieces =
                vec![text(before), Piece::IsSelected, text(after), Piece::Source(place.clone()), text("))")];
            self.add(place.clone(), change, pieces);
        }
    }

    /// A function that returns a constant instead of doing anything.
    fn replace_body(&mut self, signature: &Signature, block: &Block) {
        let (Some(first), Some(last)) = (block.stmts.first(), block.stmts.last()) else { return };
        let inside = range(first.span()).start..range(last.span()).end;
        for value in returned(&signature.output) {
            if one_line(self.text_of(&inside)) == value {
                continue;
            }
            let change = if value.is_empty() { "no body".to_owned() } else { format!("body to `{value}`") };
            let constant = text(&format!(" {{ return {value}; }} "));
            let pieces = vec![text("if "), Piece::IsSelected, constant, Piece::Source(inside.clone())];
            self.add(inside.clone(), change, pieces);
        }
    }

    fn delete(&mut self, statement: &Stmt) {
        let place = range(statement.span());
        let change = format!("without `{}`", one_line(self.text_of(&place)));
        let pieces =
            vec![text("if !"), Piece::IsSelected, text(" { "), Piece::Source(place.clone()), text(" }")];
        self.add(place, change, pieces);
    }

    fn in_function(&mut self, signature: &Signature, attributes: &[Attribute], block: &Block) {
        if signature.constness.is_some() || is_test(attributes) {
            return;
        }
        self.path.push(signature.ident.to_string());
        self.replace_body(signature, block);
        self.visit_block(block);
        self.path.pop();
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let implemented = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        let is_text = implemented.is_some_and(|last| last.ident == "Display" || last.ident == "Debug");
        if is_text || is_test(&item.attrs) {
            return;
        }
        self.path.push(one_line(self.text_of(&range(item.self_ty.span()))));
        visit::visit_item_impl(self, item);
        self.path.pop();
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.path.push(item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.path.pop();
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.in_function(&function.sig, &function.attrs, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.in_function(&function.sig, &function.attrs, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.in_function(&function.sig, &function.attrs, block);
        }
    }

    // What the compiler computes cannot be selected at run time.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_path(&mut self, _: &'ast syn::Path) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.visit_expr(&call.receiver);
        call.args.iter().for_each(|argument| self.visit_expr(argument));
    }

    fn visit_block(&mut self, block: &'ast Block) {
        for statement in &block.stmts {
            if let Stmt::Expr(expression, Some(_)) = statement
                && is_effect(expression)
            {
                self.delete(statement);
            }
        }
        visit::visit_block(self, block);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        if !has_let(&binary.left) && !has_let(&binary.right) {
            let (left, right) = (range(binary.left.span()), range(binary.right.span()));
            for other in others(&binary.op) {
                let by =
                    [Piece::Source(left.clone()), text(&format!(" {other} ")), Piece::Source(right.clone())];
                self.replace(left.start..right.end, by.to_vec(), other);
            }
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        if matches!(unary.op, UnOp::Not(_)) {
            let inner = range(unary.expr.span());
            let place = range(unary.op.span()).start..inner.end;
            self.replace(place, vec![Piece::Source(inner)], "without !");
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_if(&mut self, conditional: &'ast syn::ExprIf) {
        self.settle(&conditional.cond, &[true, false]);
        visit::visit_expr_if(self, conditional);
    }

    fn visit_expr_while(&mut self, repeated: &'ast syn::ExprWhile) {
        self.settle(&repeated.cond, &[false]);
        visit::visit_expr_while(self, repeated);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.settle(guard, &[true, false]);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_macro(&mut self, expression: &'ast syn::ExprMacro) {
        if expression.mac.path.is_ident("matches") {
            let place = range(expression.span());
            let by = vec![text("!"), Piece::Source(place.clone())];
            self.replace(place, by, "its opposite");
        }
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        let parse = Punctuated::<Expr, Token![,]>::parse_terminated;
        if let Some(name) = invocation.path.get_ident().map(ToString::to_string)
            && TRANSPARENT.contains(&name.as_str())
            && let Ok(arguments) = invocation.parse_body_with(parse)
        {
            let verb = arguments.first().map(|verb| one_line(self.text_of(&range(verb.span()))));
            self.path.push(verb.unwrap_or_default());
            arguments.iter().for_each(|argument| self.visit_expr(argument));
            self.path.pop();
        }
    }
}

fn text(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

fn range(span: Span) -> Range<usize> {
    span.byte_range()
}

/// The code without line breaks, shortened.
fn one_line(code: &str) -> String {
    let line = code.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(90) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// Whether it binds names, so that it cannot be one branch of a condition.
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// Whether the statement is there for what it does.
fn is_effect(expression: &Expr) -> bool {
    match expression {
        Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_) => true,
        Expr::Await(awaited) => is_effect(&awaited.base),
        Expr::Try(tried) => is_effect(&tried.expr),
        Expr::Binary(binary) => matches!(binary.op, BinOp::AddAssign(_) | BinOp::SubAssign(_)),
        _ => false,
    }
}

/// What an operator may be mistaken for.
fn others(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["<=", ">="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["/"],
        BinOp::Div(_) => &["*"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        _ => &[],
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    let is_about_tests = |attribute: &Attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string().contains("test"),
        syn::Meta::Path(path) => path.segments.last().is_some_and(|last| last.ident == "test"),
        syn::Meta::NameValue(_) => false,
    };
    attributes.iter().any(is_about_tests)
}
