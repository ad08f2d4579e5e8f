//! The lexer.
use super::error::CompileError;
use super::limits::SOURCE_BYTES_MAX;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// Unsigned, because the minus is an operator. `i64::MAX + 1` is valid after a minus.
    Int(u64),
    Float(f64),
    Text(String),
    Name(String),
    Symbol(&'static str),
    End,
}

/// A token and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spanned {
    pub(super) token: Token,
    pub(super) offset: usize,
}

/// Longer symbols first: the first match wins.
const SYMBOLS: [&str; 24] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ",", ".", "(", ")",
    "[", "]", "{", "}",
];

/// The tokens of `source`; the last is always [`Token::End`].
pub(super) fn tokens(source: &str) -> Result<Vec<Spanned>, CompileError> {
    if source.len() > SOURCE_BYTES_MAX {
        let message = format!("the expression has {} bytes; the maximum is {SOURCE_BYTES_MAX}", source.len());
        return Err(CompileError::new(message, SOURCE_BYTES_MAX));
    }
    let mut lexer = Lexer { source, offset: 0 };
    let mut tokens = Vec::new();
    loop {
        let spanned = lexer.next()?;
        let is_last = spanned.token == Token::End;
        tokens.push(spanned);
        if is_last {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    source: &'a str,
    offset: usize,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        self.source.get(self.offset..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.offset += next.len_utf8();
        Some(next)
    }

    fn skip_while(&mut self, keep: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&keep) {
            self.bump();
        }
    }

    fn next(&mut self) -> Result<Spanned, CompileError> {
        self.skip_while(char::is_whitespace);
        let offset = self.offset;
        let token = match self.peek() {
            None => Token::End,
            Some(first) if first.is_ascii_digit() => self.number()?,
            Some(quote @ ('\'' | '"')) => self.text(quote)?,
            Some(first) if first.is_ascii_alphabetic() || first == '_' => self.name(),
            Some(first) => self.symbol(first)?,
        };
        Ok(Spanned { token, offset })
    }

    fn name(&mut self) -> Token {
        let start = self.offset;
        self.skip_while(|next| next.is_ascii_alphanumeric() || next == '_');
        Token::Name(self.source[start..self.offset].to_owned())
    }

    fn symbol(&mut self, first: char) -> Result<Token, CompileError> {
        let symbol = SYMBOLS
            .into_iter()
            .find(|symbol| self.rest().starts_with(symbol))
            .ok_or_else(|| CompileError::new(format!("unexpected character {first:?}"), self.offset))?;
        self.offset += symbol.len();
        Ok(Token::Symbol(symbol))
    }

    fn number(&mut self) -> Result<Token, CompileError> {
        let start = self.offset;
        let mut is_float = false;
        self.skip_while(|next| next.is_ascii_digit());
        // A dot that no digit follows is a member access, not a fraction.
        let mut ahead = self.rest().chars();
        if ahead.next() == Some('.') && ahead.next().is_some_and(|next| next.is_ascii_digit()) {
            is_float = true;
            self.bump();
            self.skip_while(|next| next.is_ascii_digit());
        }
        if self.peek().is_some_and(|next| matches!(next, 'e' | 'E')) {
            is_float = true;
            self.bump();
            if self.peek().is_some_and(|next| matches!(next, '+' | '-')) {
                self.bump();
            }
            self.skip_while(|next| next.is_ascii_digit());
        }
        if self.peek().is_some_and(|next| next.is_ascii_alphanumeric() || next == '_') {
            return Err(CompileError::new("unexpected letter after a number", self.offset));
        }
        let digits = &self.source[start..self.offset];
        if is_float {
            let float = digits.parse::<f64>().ok().filter(|float| float.is_finite());
            float
                .map(Token::Float)
                .ok_or_else(|| CompileError::new("the number is malformed or too large", start))
        } else {
            digits.parse().map(Token::Int).map_err(|_| CompileError::new("the integer is too large", start))
        }
    }

    fn text(&mut self, quote: char) -> Result<Token, CompileError> {
        let start = self.offset;
        self.bump();
        let mut text = String::new();
        loop {
            let offset = self.offset;
            match self.bump() {
                None => return Err(CompileError::new("unterminated string literal", start)),
                Some(next) if next == quote => return Ok(Token::Text(text)),
                Some('\\') => text.push(self.escape(offset)?),
                Some(next) => text.push(next),
            }
        }
    }

    /// The character after a backslash. `offset` is that of the backslash.
    fn escape(&mut self, offset: usize) -> Result<char, CompileError> {
        match self.bump() {
            Some('n') => Ok('\n'),
            Some('t') => Ok('\t'),
            Some('r') => Ok('\r'),
            Some(same @ ('\\' | '\'' | '"')) => Ok(same),
            Some('u') => self.code_point(offset),
            _ => Err(CompileError::new("unknown escape in a string literal", offset)),
        }
    }

    fn code_point(&mut self, offset: usize) -> Result<char, CompileError> {
        let digits =
            self.rest().get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let character =
            digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
        let character = character.ok_or_else(|| {
            CompileError::new("\\u requires four hexadecimal digits of a character (no surrogate)", offset)
        })?;
        self.offset += 4;
        Ok(character)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<Token> {
        tokens(source).unwrap().into_iter().map(|spanned| spanned.token).collect()
    }

    #[test]
    fn numbers_are_integers_unless_they_have_a_fraction_or_an_exponent() {
        use Token::{End, Float, Int, Name, Symbol};
        assert_eq!(kinds("12"), [Int(12), End]);
        assert_eq!(kinds("1.5 2e3 2E-1"), [Float(1.5), Float(2000.0), Float(0.2), End]);
        assert_eq!(kinds("1.a"), [Int(1), Symbol("."), Name("a".to_owned()), End]);
    }

    #[test]
    fn strings_take_both_quotes_and_the_escapes() {
        let text = r#"'a"\'\n\t\r\\é'"#;
        assert_eq!(kinds(text), [Token::Text("a\"'\n\t\r\\é".to_owned()), Token::End]);
        assert_eq!(kinds(r#""it's""#), [Token::Text("it's".to_owned()), Token::End]);
        assert_eq!(kinds(r"'\u00e9'"), [Token::Text("é".to_owned()), Token::End]);
    }

    #[test]
    fn malformed_tokens_are_rejected_with_their_offset() {
        for (source, offset) in [
            ("'abc", 0),
            (r"'a\q'", 2),
            (r"'\ud800'", 1),
            (r"'\u12'", 1),
            ("1 + 2x", 5),
            ("1e999", 0),
            ("1e", 0),
            ("99999999999999999999", 0),
            ("1 # 2", 2),
            ("a & b", 2),
            ("é", 0),
        ] {
            assert_eq!(tokens(source).unwrap_err().offset, offset, "{source}");
        }
    }

    #[test]
    fn a_source_over_the_limit_is_rejected_with_its_size() {
        let message = tokens(&" ".repeat(SOURCE_BYTES_MAX + 1)).unwrap_err().message;
        assert_eq!(message, "the expression has 4097 bytes; the maximum is 4096");
        assert!(tokens(&" ".repeat(SOURCE_BYTES_MAX)).is_ok());
    }
}
