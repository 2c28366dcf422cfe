//! Tests of `directory`.
