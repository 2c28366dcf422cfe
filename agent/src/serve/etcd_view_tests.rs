//! Tests of `etcd_view`.
