//! What each test begins with.

use super::net::Net;
use super::pki::Ca;

/// Runs a test in a network of its own, on this thread alone: only this thread is in that network.
pub fn run<F: Future<Output = ()>>(test: impl FnOnce(Net, Ca) -> F) {
    // The other tests of this process have installed it, or this one does.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let net = Net::enter();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(test(net, Ca::new()));
}
