//! The link to the operator: mTLS gRPC.

mod accept;
mod certificate;
mod client_check;
mod service;
mod share;
mod watchers;

pub use accept::serve;
pub use certificate::{TlsFiles, watch_files};
pub use service::Service;
pub use watchers::Watchers;
