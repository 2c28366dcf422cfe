//! For tests with real etcds, here and in crates that build on this one (feature `testing`).

use std::{
    env, fs, io,
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    sync::atomic::{AtomicU16, Ordering::Relaxed},
};

/// The folder with `etcd`, `etcdctl` and `etcdutl` of the newest patch of a minor version (`3.6`) that was built for the
/// local Kubernetes: `etcd-<version>-<pins>` in `ETCD_BIN_DIR`, else in the cache that `make kube-up` fills.
///
/// # Errors
///
/// With what to do, when there is none.
pub fn binaries(minor: &str) -> io::Result<PathBuf> {
    let given = env::var_os("ETCD_BIN_DIR").or_else(|| env::var_os("ETCD_OPERATOR_CACHE"));
    let usual = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/etcd-operator"));
    let cache = given.map(PathBuf::from).or_else(usual).unwrap_or_default();
    let prefix = format!("etcd-{minor}.");
    let patch = |folder: &PathBuf| -> Option<u32> {
        let rest = folder.file_name()?.to_str()?.strip_prefix(&prefix)?;
        rest.split('-').next()?.parse().ok()
    };
    let newest = fs::read_dir(&cache)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|folder| folder.join("etcdutl").is_file())
        .filter_map(|folder| Some((patch(&folder)?, folder)))
        .max();
    newest.map(|(_, folder)| folder).ok_or_else(|| {
        io::Error::other(format!(
            "no etcd {minor} in {}: run `make kube-up` once, it builds them, or set ETCD_BIN_DIR",
            cache.display()
        ))
    })
}

/// A free port of the loopback address, below those that the kernel gives to outgoing connections: nobody else takes it
/// while an etcd is stopped. Other processes begin elsewhere.
///
/// # Errors
///
/// When none of them is free.
pub fn free_port() -> io::Result<u16> {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let process = u16::try_from(std::process::id() % 97).unwrap_or_default();
    (0..COUNT)
        .map(|_| FIRST + (process * 120 + NEXT.fetch_add(1, Relaxed) % COUNT) % COUNT)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| io::Error::other("no port is free on the loopback address"))
}
