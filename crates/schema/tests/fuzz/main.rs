//! Fuzzing of schemas: what is accepted is checked within bounds, and the answer does not depend on how it is written.

mod schemas;
