//! Tests of the log value.
