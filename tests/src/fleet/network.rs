//! Addresses for the simulated Pods, and servers on them.

use std::{
    fs::File,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::fd::AsFd,
    path::Path,
    thread,
};

use anyhow::{Context, Result, anyhow, bail};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::service::Routes;

use crate::kube::{LocalKube, Place};

/// The first address; the rest follow it.
pub(super) const FIRST: Ipv4Addr = Ipv4Addr::new(10, 251, 0, 1);
const RANGE: &str = "10.251.0.0/16";

/// Makes every address of the range the control plane's own. Nodes send what they have no route for there.
pub(super) fn add_addresses(kube: &LocalKube) -> Result<()> {
    let mut ip = kube.exec_in_netns(Place::ControlPlane, "ip");
    let output = ip
        .args(["route", "replace", "local", RANGE, "dev", "lo"])
        .output()
        .context("cannot start ip")?;
    if !output.status.success() {
        bail!(
            "cannot add the addresses {RANGE}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// Listens on one of them. A socket stays in the namespace of the thread that made it.
pub(super) fn listen(namespace: &Path, address: SocketAddr) -> Result<tokio::net::TcpListener> {
    let namespace = namespace.to_owned();
    let listener = thread::spawn(move || -> Result<TcpListener> {
        move_into_link_name_space(File::open(namespace)?.as_fd(), Some(LinkNameSpaceType::Network))?;
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let listener = listener.join().map_err(|_| anyhow!("the thread has ended"))?;
    let listener = listener.with_context(|| format!("cannot listen on {address} of the simulated Pods"))?;
    Ok(tokio::net::TcpListener::from_std(listener)?)
}

/// Serves gRPC on one connection until its other end closes it.
pub(super) async fn serve<S>(stream: S, routes: Routes)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = hyper_util::service::TowerToHyperService::new(routes);
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // How a connection ends is the business of its other end.
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}
