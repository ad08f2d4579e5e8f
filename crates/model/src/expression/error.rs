//! Why an expression was refused, or failed.

/// The source is not an expression of this language, or it is over a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at byte {offset}{}", place(.pointer.as_deref()))]
pub struct CompileError {
    /// What is wrong, without the place.
    pub message: String,
    /// Bytes from the start of the source, or of the string that holds the template.
    pub offset: usize,
    /// The string inside a template, as a JSON pointer; none for a bare expression.
    pub pointer: Option<String>,
}

/// The expression could not give a value for this scope. No variant holds a value from the scope, so that an
/// error can be logged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// An operation met a type that it has no meaning for.
    #[error("{operation} needs {needs}, not {found}")]
    Type { operation: &'static str, needs: &'static str, found: String },
    #[error("{operation} of this string failed: it does not hold {needs}")]
    Conversion { operation: &'static str, needs: &'static str },
    #[error("the integer does not fit 64 bits")]
    Overflow,
    #[error("division by zero")]
    DivisionByZero,
    #[error("the number is too large, or written too long, to compute with")]
    NotFinite,
    #[error("a map literal holds the same key twice")]
    DuplicateKey,
    #[error("the evaluation takes more than {steps_max} steps")]
    Budget { steps_max: usize },
    #[error("the evaluation builds more than {bytes_max} bytes")]
    TooLarge { bytes_max: usize },
    #[error("a value is nested deeper than {depth_max} levels")]
    TooDeep { depth_max: usize },
}

impl CompileError {
    pub(super) fn new(message: impl Into<String>, offset: usize) -> Self {
        Self { message: message.into(), offset, pointer: None }
    }
}

fn place(pointer: Option<&str>) -> String {
    pointer.map(|pointer| format!(" of the string at \"{pointer}\"")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compile_error_says_where() {
        let mut error = CompileError::new("something is wrong", 17);
        assert_eq!(error.to_string(), "something is wrong at byte 17");
        error.pointer = Some("/a/0".to_owned());
        assert_eq!(error.to_string(), "something is wrong at byte 17 of the string at \"/a/0\"");
    }
}
