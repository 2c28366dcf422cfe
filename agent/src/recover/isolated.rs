//! An etcd that nobody can reach: on loopback, with ports of its own, alone in its cluster. It brings the whole of the log into
//! the database, and ends.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::Error;
use crate::serve::etcd_config::MAX_LEARNERS;
use crate::serve::etcd_metrics;

/// A log of any length is replayed in this time, or the disk hangs.
const LONGEST: Duration = Duration::from_mins(30);
/// It ends in this time after it was asked to.
const END: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(25);
const ANSWER: Duration = Duration::from_secs(2);
const PAGE: u64 = 4 << 20;

/// Runs it on `data_dir` until it has applied entry `index` and all it has added itself, and stops it.
pub fn apply_all(etcd: &Path, data_dir: &Path, name: &str, quota: Option<i64>, index: u64) -> Result<(), Error> {
    let config = config_of(data_dir);
    let [client, peer, metrics] = free_ports()?;
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let mut content = json!({
        "name": name,
        "data-dir": data_dir,
        "listen-client-urls": url(client),
        "advertise-client-urls": url(client),
        "listen-peer-urls": url(peer),
        "initial-advertise-peer-urls": url(peer),
        "listen-metrics-urls": url(metrics),
        "log-outputs": ["stderr"],
        "force-new-cluster": true,
        // The changes of membership in the log are checked once more, and etcd panics after one that it refuses. 3.5 passes
        // over the key.
        "max-learners": MAX_LEARNERS,
    });
    if let (Some(quota), Some(fields)) = (quota, content.as_object_mut()) {
        fields.insert("quota-backend-bytes".to_owned(), quota.into());
    }
    fs::write(&config, content.to_string())?;
    let mut command = Command::new(etcd);
    command
        .arg("--config-file")
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    for (variable, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD_")) {
        command.env_remove(variable);
    }
    let mut child = command
        .spawn()
        .map_err(|error| Error::Isolated(format!("cannot be started ({}): {error}", etcd.display())))?;
    let applied = until_applied(&mut child, metrics, index);
    let ended = stop(&mut child);
    applied?;
    let status = ended?;
    if status.success() || signal_of(status) == Some(Signal::TERM.as_raw()) {
        Ok(())
    } else {
        Err(Error::Isolated(format!("ended with {status} when it was stopped")))
    }
}

fn signal_of(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

fn until_applied(child: &mut Child, metrics: u16, index: u64) -> Result<(), Error> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Err(Error::Isolated(format!("ended by itself with {status}")));
        }
        if let Some(page) = read_metrics(metrics) {
            let page = etcd_metrics::parse(&page);
            if page.has_leader && page.committed >= index && page.applied >= page.committed {
                return Ok(());
            }
        }
        if began.elapsed() > LONGEST {
            return Err(Error::Isolated(format!(
                "has not applied its log within {} minutes",
                LONGEST.as_secs() / 60
            )));
        }
        std::thread::sleep(LOOK);
    }
}

fn stop(child: &mut Child) -> Result<ExitStatus, Error> {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        && child.try_wait()?.is_none()
    {
        kill_process(pid, Signal::TERM).map_err(std::io::Error::from)?;
    }
    let asked = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if asked.elapsed() > END {
            child.kill()?;
            child.wait()?;
            return Err(Error::Isolated("did not end when it was asked to".to_owned()));
        }
        std::thread::sleep(LOOK);
    }
}

/// HTTP/1.0, so that the answer is not chunked and ends with the connection.
fn read_metrics(port: u16) -> Option<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, ANSWER).ok()?;
    stream.set_read_timeout(Some(ANSWER)).ok()?;
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .ok()?;
    let mut page = Vec::new();
    stream.take(PAGE).read_to_end(&mut page).ok()?;
    Some(String::from_utf8_lossy(&page).into_owned())
}

/// Three ports that are free at this moment. All are held until the last is known, so that they differ.
fn free_ports() -> Result<[u16; 3], Error> {
    let mut held = Vec::new();
    let mut ports = [0; 3];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

fn config_of(data_dir: &Path) -> PathBuf {
    data_dir.with_extension("yaml")
}

/// Ends an isolated etcd of a job that was killed: it would hold the directory.
pub fn end_leftovers(etcd: &Path, data_dir: &Path) -> Result<(), Error> {
    let config = config_of(data_dir);
    let config = config.to_string_lossy();
    let program = etcd
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let deadline = Instant::now() + END;
    loop {
        let mut found = false;
        for entry in fs::read_dir("/proc")?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            let mut words = line.split('\0');
            let is_it = words.next().is_some_and(|word| Path::new(word).ends_with(&program))
                && words.any(|word| word == config);
            if let (true, Some(pid)) = (is_it, Pid::from_raw(pid)) {
                found = true;
                // It may have ended by now.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        if !found {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Error::Isolated("of an earlier try does not end".to_owned()));
        }
        std::thread::sleep(LOOK);
    }
}
