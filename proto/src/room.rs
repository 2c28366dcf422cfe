//! How much of a data volume must be free: agent and operator mean the same by it.

/// etcd's log grows by files of 64 MB, each taken from the volume as a whole when it is begun; what is on top of that is
/// for the database. An etcd that has ended for want of space is not started again below this: it would end at once.
pub const ROOM_BYTES: u64 = 72 << 20;
/// With less than this a volume is full: the next growth of etcd's database (16 MiB at a time) fails.
pub const FULL_BYTES: u64 = 8 << 20;
/// With fewer than this many files left to make, a volume is full.
pub const FULL_INODES: u64 = 8;
