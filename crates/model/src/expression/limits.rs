//! What an expression may use. Constants, not settings: a workflow must mean the same on every node.

/// Bytes of one expression's source.
pub const SOURCE_BYTES_MAX: usize = 4096;

/// Nesting of one expression: of its brackets as written, and of its operations. A chain of one kind
/// (`a && b && …`, `a.b.c…`, `!!…x`, `a ? b : c ? d : …`) is one operation, however long.
pub const DEPTH_MAX: usize = 64;

/// Steps of one evaluation, or of one whole render.
pub const STEPS_MAX: usize = 100_000;

/// Bytes of strings, lists and maps that one evaluation, or one whole render, may build on its way.
pub const ALLOCATED_BYTES_MAX: usize = 1 << 20;

/// Bytes of one evaluation's result, about as compact JSON.
pub const RESULT_BYTES_MAX: usize = 1 << 20;

/// Bytes of one rendered template, about as compact JSON.
pub const RENDERED_BYTES_MAX: usize = 2 << 20;

/// Nesting of a template's own JSON.
pub const TEMPLATE_DEPTH_MAX: usize = 64;

/// Nesting of any value that is copied, compared or given out. It stays below the 128 levels at which
/// `serde_json` refuses to read, with room for an envelope: what we give out must be readable again.
pub const VALUE_DEPTH_MAX: usize = 100;
