//! Classes of etcd's ends that the operator must know by name; the agent has more.

/// etcd ended with its whole container, unseen: why, only Kubernetes can tell.
pub const VANISHED: &str = "Vanished";
/// It was killed because it took more memory than its limit.
pub const OUT_OF_MEMORY: &str = "OutOfMemory";
/// Its volume is full.
pub const DISK_FULL: &str = "DiskFull";
