//! HTTP in, HTTP out; the only place that knows status codes
