//! Processes of Pods, as the host sees them: the host's process IDs are valid whatever namespace they live in.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// A process, told from a later one with the same ID by the time of its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pid: i32,
    /// Clock ticks since boot (proc(5), `starttime`).
    started: u64,
}

impl Process {
    /// etcd itself, in the Pod of that UID.
    pub fn etcd(pod_uid: &str) -> Result<Self> {
        Self::only(pod_uid, "etcd", &["--config-file"])
    }

    /// The first process of the etcd container.
    pub fn supervisor(pod_uid: &str) -> Result<Self> {
        Self::only(pod_uid, "etcd-agent", &["supervise"])
    }

    /// The agent.
    pub fn agent(pod_uid: &str) -> Result<Self> {
        Self::only(pod_uid, "etcd-agent", &["serve"])
    }

    /// The operator.
    pub fn operator(pod_uid: &str) -> Result<Self> {
        Self::only(pod_uid, "etcd-operator", &[])
    }

    fn only(pod_uid: &str, program: &str, arguments: &[&str]) -> Result<Self> {
        let found: Vec<Self> = of_pod(pod_uid)?
            .into_iter()
            .filter(|(_, command)| {
                let mut words = command.split('\0');
                let name = words.next().and_then(|path| path.rsplit('/').next());
                let rest: Vec<&str> = words.collect();
                name == Some(program)
                    && arguments
                        .iter()
                        .all(|argument| rest.iter().any(|w| w.starts_with(argument)))
            })
            .map(|(process, _)| process)
            .collect();
        match found[..] {
            [one] => Ok(one),
            [] => bail!("{program} {arguments:?} does not run in the Pod with UID {pod_uid}"),
            _ => bail!(
                "{program} {arguments:?} runs {} times in the Pod with UID {pod_uid}",
                found.len()
            ),
        }
    }

    /// SIGKILL.
    pub fn kill(self) -> Result<()> {
        self.signal(Signal::KILL)
    }

    /// SIGSTOP: it hangs.
    pub fn stop(self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT: it goes on.
    pub fn go_on(self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// A path as it sees it.
    #[must_use]
    pub fn path(self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.pid))
    }

    fn signal(self, signal: Signal) -> Result<()> {
        ensure!(self.runs(), "process {} has ended already", self.pid);
        let pid = Pid::from_raw(self.pid).context("0 is no process ID")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal process {}", self.pid))
    }

    /// It has not ended.
    #[must_use]
    pub fn runs(self) -> bool {
        start_of(self.pid).is_ok_and(|started| started == self.started)
    }

    /// Its process ID on the host.
    #[must_use]
    pub fn id(self) -> i32 {
        self.pid
    }

    /// Its parent. Of the first process of a container: the shim, which is in the mount namespace of the node.
    pub fn parent(self) -> Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        let rest = stat.rsplit_once(')').context("malformed")?.1;
        let pid = rest.split_whitespace().nth(1).context("malformed")?.parse()?;
        let started = start_of(pid)?;
        Ok(Self { pid, started })
    }

    /// The network namespace that it is in.
    #[must_use]
    pub fn network(self) -> String {
        format!("/proc/{}/ns/net", self.pid)
    }
}

/// Every process of a Pod's containers, with its command line (words separated by NUL).
fn of_pod(uid: &str) -> Result<Vec<(Process, String)>> {
    let group = format!("/pod{uid}/");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse::<i32>() else {
            continue;
        };
        // It may end while it is looked at.
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
        let (Ok(groups), Ok(command), Ok(started)) = (read("cgroup"), read("cmdline"), start_of(pid)) else {
            continue;
        };
        if groups.contains(&group) && !command.is_empty() {
            found.push((Process { pid, started }, command));
        }
    }
    Ok(found)
}

fn start_of(pid: i32) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the name, in parentheses, and may hold spaces; the state follows it.
    let rest = stat.rsplit_once(')').context("malformed")?.1;
    let mut fields = rest.split_whitespace();
    ensure!(!matches!(fields.next(), Some("Z" | "X")), "it has ended");
    Ok(fields.nth(18).context("malformed")?.parse()?)
}
