//! One file with many mutants in it, each behind its own condition.

use std::cmp::Reverse;
use std::ops::Range;

use super::mutant::{Mutant, Piece};

/// A mutant with the number that selects it.
pub(crate) type Numbered<'a> = (usize, &'a Mutant);

/// The text of the mutated file, and where each mutant is in it.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    places: Vec<(usize, Range<usize>)>,
}

impl Rendered {
    /// The mutant that an error at this place is about: the innermost one around it.
    pub(crate) fn at(&self, error: &Range<usize>) -> Option<usize> {
        let around =
            self.places.iter().filter(|(_, place)| place.start <= error.start && error.end <= place.end);
        around.min_by_key(|(_, place)| place.len()).map(|(number, _)| *number)
    }
}

/// Writes `source` with all of these mutants in it. `is_selected` is the function that says which one is active.
pub(crate) fn render(source: &str, mutants: &[Numbered<'_>], is_selected: &str) -> Rendered {
    let mut outermost_first = mutants.to_vec();
    outermost_first.sort_by_key(|(number, mutant)| (mutant.place.start, Reverse(mutant.place.end), *number));
    let mut rendering = Rendering { source, is_selected, rendered: Rendered::default() };
    rendering.write(0..source.len(), &outermost_first);
    rendering.rendered
}

struct Rendering<'a> {
    source: &'a str,
    is_selected: &'a str,
    rendered: Rendered,
}

impl Rendering<'_> {
    /// Writes this part of the source with those of the mutants that are in it.
    fn write(&mut self, part: Range<usize>, mutants: &[Numbered<'_>]) {
        let mut from = part.start;
        for (at, (number, mutant)) in mutants.iter().enumerate() {
            let place = &mutant.place;
            if place.start < from || place.end > part.end {
                continue;
            }
            self.rendered.text += &self.source[from..place.start];
            self.write_mutant(*number, mutant, &mutants[at + 1..]);
            from = place.end;
        }
        self.rendered.text += &self.source[from..part.end];
    }

    fn write_mutant(&mut self, number: usize, mutant: &Mutant, inner: &[Numbered<'_>]) {
        let begin = self.rendered.text.len();
        let mut end = None;
        for piece in &mutant.pieces {
            match piece {
                Piece::Text(text) => self.rendered.text += text,
                Piece::IsSelected => {
                    let condition = format!("{}({number})", self.is_selected);
                    self.rendered.text += &condition;
                }
                Piece::Source(part) => {
                    // A body that a constant precedes is not part of the mutant: its errors are its own.
                    end.get_or_insert(self.rendered.text.len());
                    self.write(part.clone(), inner);
                }
            }
        }
        let is_prefix = matches!(mutant.pieces.last(), Some(Piece::Source(_)));
        let end = end.filter(|_| is_prefix).unwrap_or(self.rendered.text.len());
        self.rendered.places.push((number, begin..end));
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::find;
    use super::*;

    /// The changes of the mutants of this source, and the source with all of them.
    fn rendered(source: &str) -> (Vec<String>, Rendered) {
        let mutants = find("a.rs", source).unwrap();
        let numbered: Vec<_> = mutants.iter().enumerate().collect();
        (mutants.iter().map(|mutant| mutant.change.clone()).collect(), render(source, &numbered, "on"))
    }

    #[test]
    fn each_mutant_is_a_branch_beside_the_code() {
        let (changes, rendered) = rendered("fn f(a: u8) -> u8 { a + 1 }");
        assert_eq!(changes, ["`a + 1` to `-`"]);
        assert_eq!(rendered.text, "fn f(a: u8) -> u8 { (if on(0) { a - 1 } else { a + 1 }) }");
    }

    #[test]
    fn a_statement_is_left_out_and_a_body_becomes_a_constant() {
        let (changes, rendered) = rendered("fn f() { g(); h!(); }");
        assert_eq!(changes, ["no body", "without `g();`"]);
        assert_eq!(rendered.text, "fn f() { if on(0) { return ; } if !on(1) { g(); } h!(); }");
    }

    #[test]
    fn mutants_inside_of_mutants_are_in_every_branch() {
        let (changes, rendered) = rendered("fn f() -> T { t(a == b && !c) }");
        assert_eq!(changes, ["`a == b && !c` to `||`", "`a == b` to `!=`", "`!c` to `without !`"]);
        let equal = "(if on(1) { a != b } else { a == b })";
        let not = "(if on(2) { c } else { !c })";
        let expected =
            format!("fn f() -> T {{ t((if on(0) {{ {equal} || {not} }} else {{ {equal} && {not} }})) }}");
        assert_eq!(rendered.text, expected);
        let error = rendered.text.find("a != b").unwrap();
        assert_eq!(rendered.at(&(error..error + 6)), Some(1));
        assert_eq!(rendered.at(&(0..2)), None);
    }

    #[test]
    fn conditions_are_settled_both_ways_unless_they_bind_names() {
        let (changes, rendered) =
            rendered("fn f() -> T { if a { b } else if let C = d && e { g } else { h } }");
        assert_eq!(changes, ["condition `a` to `true`", "condition `a` to `false`"]);
        assert!(rendered.text.contains("if (on(0) || ((!on(1) && (a)))) { b }"), "{}", rendered.text);
    }

    #[test]
    fn what_the_compiler_computes_texts_and_tests_are_left_alone() {
        let source = "
            const A: usize = 1 + 1;
            const fn f() -> bool { A == 2 }
            fn g(a: [u8; A + 1]) -> T { match a { [1, ..] => json!(1 + 1), _ => [0; A + 1] } }
            impl Display for B { fn fmt(&self) -> bool { self.a == 1 } }
            #[cfg(test)]
            mod tests { fn h() -> bool { a == b } }
            macro_rules! m { () => { 1 + 1 } }
        ";
        assert_eq!(rendered(source).0, [""; 0]);
    }

    #[test]
    fn a_decision_is_code_although_a_macro_is_around_it() {
        let source = "decide!(Commit, |verb, draft| { draft.end()?; Ok(a < b) });";
        let mutants = find("a.rs", source).unwrap();
        assert_eq!(mutants[0].name(), "a.rs Commit: without `draft.end()?;`");
        assert_eq!(mutants.len(), 3);
    }
}
