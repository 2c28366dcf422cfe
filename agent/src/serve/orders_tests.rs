//! Tests of `orders`.
