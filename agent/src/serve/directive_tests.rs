//! Tests of `directive`.
