//! Pictures of a report, as SVG and as PNG.
