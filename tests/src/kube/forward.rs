//! TCP from the host into a network namespace: a loopback port here, connections made there.
//!
//! A socket belongs for good to the namespace of the thread that made it. So one thread with a listener of the host's enters
//! the namespace, and what it accepts is the host's while what it connects is the namespace's.

use std::{
    fs::File,
    io,
    net::{SocketAddr, TcpListener},
    os::fd::AsFd,
    path::PathBuf,
    sync::mpsc,
    thread,
};

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::{
    net::{TcpSocket, TcpStream},
    sync::oneshot,
};

/// A forwarded port. It closes when this is dropped.
#[derive(Debug)]
pub struct Forward {
    address: SocketAddr,
    // The thread ends when the other end of this channel goes.
    _stop: oneshot::Sender<()>,
}

impl Forward {
    /// Forwards a free loopback port to `target` as seen from the network namespace at that path.
    pub fn start(namespace: PathBuf, target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let (started, start) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => {
                    runtime.block_on(async {
                        let _ = started.send(tokio::net::TcpListener::from_std(listener).map(|listener| {
                            tokio::spawn(serve(listener, namespace, target));
                        }));
                        let _ = stopped.await;
                    });
                }
                Err(error) => drop(started.send(Err(error))),
            }
        });
        start.recv()?.context("cannot forward a port")?;
        Ok(Self { address, _stop: stop })
    }

    /// Where to connect to on the host.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn serve(listener: tokio::net::TcpListener, namespace: PathBuf, target: SocketAddr) {
    while let Ok((client, _)) = listener.accept().await {
        let namespace = namespace.clone();
        tokio::spawn(async move {
            // A failure to connect shows at the client as a closed connection, as with any proxy.
            if let Ok(server) = connect(&namespace, target).await {
                let _ = copy(client, server).await;
            }
        });
    }
}

async fn connect(namespace: &PathBuf, target: SocketAddr) -> io::Result<TcpStream> {
    // Entered anew each time: a node that was off and on has another namespace. No await between this and the socket.
    move_into_link_name_space(File::open(namespace)?.as_fd(), Some(LinkNameSpaceType::Network))?;
    let socket = if target.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    socket.connect(target).await
}

async fn copy(mut client: TcpStream, mut server: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
