//! Does etcd hold the db?

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::Error;

/// bbolt locks the db exclusively while it is open for writing. A shared lock is tried for an instant only: an etcd that
/// meets it asks again each 50 ms, and would wait for ever for one that is kept.
pub fn is_locked(db: &Path) -> Result<bool, Error> {
    let at = Error::at(db);
    let file = match File::open(db) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        file => file.map_err(&at)?,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(at(error.into())),
    }
}
