//! Errors of compiling and evaluating an expression.

/// The source is not a valid expression, or exceeds a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at byte {offset}{}", place(.pointer.as_deref()))]
pub struct CompileError {
    /// The problem, without its place.
    pub message: String,
    /// Bytes from the start of the source, or of the template's string.
    pub offset: usize,
    /// The JSON pointer of the string in a template; none for a bare expression.
    pub pointer: Option<String>,
}

/// The expression has no value in this scope. No variant contains a value from the scope, so that errors can be logged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// An operation is not defined for the type of its operand.
    #[error("{operation} needs {needs}, not {found}")]
    Type { operation: &'static str, needs: &'static str, found: String },
    #[error("{operation} failed: the string is not {needs}")]
    Conversion { operation: &'static str, needs: &'static str },
    #[error("the integer does not fit in 64 bits")]
    Overflow,
    #[error("division by zero")]
    DivisionByZero,
    #[error("the number is too large or has too many digits to compute with")]
    NotFinite,
    #[error("a map literal contains the same key twice")]
    DuplicateKey,
    #[error("the evaluation takes more than {steps_max} steps")]
    Budget { steps_max: usize },
    #[error("the evaluation allocates more than {bytes_max} bytes")]
    TooLarge { bytes_max: usize },
    #[error("a value is nested deeper than {depth_max} levels")]
    TooDeep { depth_max: usize },
}

impl CompileError {
    pub(super) fn new(message: impl Into<String>, offset: usize) -> Self {
        Self { message: message.into(), offset, pointer: None }
    }
}

/// The beginning of a name or a path, which may be as long as the source.
pub(super) fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    text.chars().take(CHARS_MAX).collect()
}

fn place(pointer: Option<&str>) -> String {
    pointer.map(|pointer| format!(" of the string at \"{}\"", shown(pointer))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compile_error_names_the_place() {
        let mut error = CompileError::new("something is wrong", 17);
        assert_eq!(error.to_string(), "something is wrong at byte 17");
        error.pointer = Some("/a/0".to_owned());
        assert_eq!(error.to_string(), "something is wrong at byte 17 of the string at \"/a/0\"");
    }
}
