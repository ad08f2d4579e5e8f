//! Limits of expressions. Constants, not settings, so that a workflow behaves the same on every node.

/// Bytes of one expression's source.
pub const SOURCE_BYTES_MAX: usize = 4096;

/// Nesting of one expression: of its brackets as written, and of its operations. A chain of one kind
/// (`a && b && …`, `a.b.c…`, `!!…x`, `a ? b : c ? d : …`) is one operation, however long.
pub const DEPTH_MAX: usize = 64;

/// Steps of one evaluation, or of one whole render.
pub const STEPS_MAX: usize = 100_000;

/// Bytes of strings, lists and maps that one evaluation, or one whole render, may allocate.
pub const ALLOCATED_BYTES_MAX: usize = 1 << 20;

/// Approximate bytes of one evaluation's result as compact JSON.
pub const RESULT_BYTES_MAX: usize = 1 << 20;

/// Approximate bytes of one rendered template as compact JSON.
pub const RENDERED_BYTES_MAX: usize = 2 << 20;

/// Nesting of a template's own JSON.
pub const TEMPLATE_DEPTH_MAX: usize = 64;

/// Nesting of any value that is copied, compared or returned. It stays below the 128 levels that `serde_json` parses, with
/// room for an envelope.
pub const VALUE_DEPTH_MAX: usize = 100;
