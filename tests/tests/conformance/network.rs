//! The network between the etcds of one cluster: each peer URL is a port of ours, which passes on to where etcd listens.
//! Connections between two sides of a cut are broken at once, and no new ones come about.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::TcpStream,
    sync::watch,
};

/// Who is who, and who is cut off.
#[derive(Clone, Debug, Default)]
struct Sides {
    /// Slots by the ID that their etcd has.
    ids: BTreeMap<u64, usize>,
    far: Vec<usize>,
}

impl Sides {
    fn lets(&self, from: Sender, to: usize) -> bool {
        match from {
            Sender::Peer(id) => {
                let from = self.ids.get(&id);
                from.is_none_or(|from| self.far.contains(from) == self.far.contains(&to))
            }
            Sender::Joiner => true,
            Sender::Probe => false,
        }
    }
}

/// The wires of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    sides: Arc<watch::Sender<Sides>>,
    tasks: Arc<Mutex<tokio::task::JoinSet<()>>>,
}

impl Network {
    pub(crate) fn new() -> Self {
        Self {
            sides: Arc::new(watch::Sender::default()),
            tasks: Arc::default(),
        }
    }

    /// From now on that ID is the etcd of that slot.
    pub(crate) fn is(&self, id: u64, slot: usize) {
        self.sides.send_modify(|sides| {
            sides.ids.insert(id, slot);
        });
    }

    /// Those slots on one side, all others on the other; none: the network is whole.
    pub(crate) fn cut(&self, far: &[usize]) {
        self.sides.send_modify(|sides| sides.far = far.to_vec());
    }

    /// A port that leads to `to`, the etcd of that slot.
    pub(crate) fn lead_to(&self, slot: usize, from: u16, to: u16) {
        let listener = TcpListener::bind(("127.0.0.1", from)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let (network, to) = (self.clone(), SocketAddr::from(([127, 0, 0, 1], to)));
        self.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (one, sides) = (network.clone(), network.sides.subscribe());
                one.spawn(async move {
                    // A connection that ends shows at both ends, as one through any wire.
                    let _ = pass(client, slot, to, sides).await;
                });
            }
        });
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(task);
    }
}

async fn pass(
    mut client: TcpStream,
    slot: usize,
    to: SocketAddr,
    mut sides: watch::Receiver<Sides>,
) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let mut first = Vec::with_capacity(1024);
    while !first.windows(4).any(|end| end == b"\r\n\r\n") && first.len() < 16 * 1024 {
        if client.read_buf(&mut first).await? == 0 {
            return Ok(());
        }
    }
    let from = sender(&first);
    if !sides.borrow_and_update().lets(from, slot) {
        return Ok(());
    }
    let mut server = TcpStream::connect(to).await?;
    server.set_nodelay(true)?;
    server.write_all(&first).await?;
    let cut = async {
        while sides.changed().await.is_ok() {
            if !sides.borrow_and_update().lets(from, slot) {
                break;
            }
        }
    };
    tokio::select! {
        ended = copy_bidirectional(&mut client, &mut server) => ended.map(drop),
        () = cut => Ok(()),
    }
}

/// Who has opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// Raft traffic; it gives its ID.
    Peer(u64),
    /// It asks for the list, or the version.
    Joiner,
    /// It measures the time there and back, which nothing depends on. It gives no ID, and raft messages would follow on
    /// the same connection.
    Probe,
}

/// By the first request (`rafthttp`).
fn sender(request: &[u8]) -> Sender {
    let text = String::from_utf8_lossy(request);
    let mut headers = text.lines().filter_map(|line| line.split_once(": "));
    let id = headers.find(|(name, _)| name.eq_ignore_ascii_case("x-server-from"));
    match id.and_then(|(_, id)| u64::from_str_radix(id.trim(), 16).ok()) {
        Some(id) => Sender::Peer(id),
        None if text.split(' ').nth(1).is_some_and(|path| path.starts_with("/raft")) => Sender::Probe,
        None => Sender::Joiner,
    }
}
