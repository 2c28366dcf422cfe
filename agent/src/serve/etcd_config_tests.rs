//! Tests of `etcd_config`.
