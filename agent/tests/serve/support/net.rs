//! Network namespaces: one for the test (the operator's place), one for each Pod, joined by a bridge. The machine's own
//! network is not touched.

use std::cell::Cell;
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A namespace that lives as long as its holder.
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    fn new() -> Self {
        let holder = Command::new("unshare")
            .args(["-n", "sleep", "infinity"])
            .stdin(Stdio::null())
            .spawn()
            .expect("unshare");
        let namespace = Self { holder };
        let own = std::fs::read_link("/proc/self/ns/net").expect("/proc");
        let deadline = Instant::now() + Duration::from_secs(10);
        // Until unshare has made the new one and become `sleep`.
        loop {
            let link = std::fs::read_link(namespace.path());
            let comm = std::fs::read_to_string(format!("/proc/{}/comm", namespace.pid()));
            if link.is_ok_and(|link| link != own) && comm.is_ok_and(|comm| comm.trim() == "sleep") {
                break;
            }
            assert!(Instant::now() < deadline, "no network namespace was made");
            std::thread::sleep(Duration::from_millis(2));
        }
        namespace.ip("link set lo up");
        namespace
    }

    /// Of the holder.
    pub fn pid(&self) -> u32 {
        self.holder.id()
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.pid())
    }

    /// A command inside.
    pub fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["-t", &self.pid().to_string(), "-n", "--"])
            .stdin(Stdio::null());
        command
    }

    /// `ip …` inside.
    pub fn ip(&self, arguments: &str) {
        let status = self
            .command()
            .arg("ip")
            .args(arguments.split(' '))
            .status()
            .expect("ip");
        assert!(status.success(), "ip {arguments}: {status}");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Another address of the hub than the one that calls come from: somebody else's.
pub const STRANGER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// A network of Pods.
pub struct Net {
    hub: Namespace,
    pods: Cell<u8>,
}

impl Net {
    /// An empty one. This thread is in it from now on.
    pub fn enter() -> Self {
        let hub = Namespace::new();
        // With an address of its own: else it has that of one of its ports, and loses it when that Pod goes.
        hub.ip("link add br0 address 02:00:00:00:00:01 type bridge");
        hub.ip("addr add 10.77.0.1/24 dev br0");
        hub.ip(&format!("addr add {STRANGER}/24 dev br0"));
        hub.ip("link set br0 up");
        let file = File::open(hub.path()).expect("the namespace's file");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("setns needs CAP_SYS_ADMIN");
        Self {
            hub,
            pods: Cell::new(0),
        }
    }

    /// The next Pod's namespace and address.
    pub fn pod(&self) -> (Namespace, Ipv4Addr) {
        let number = self.pods.get() + 1;
        self.pods.set(number);
        let pod = Namespace::new();
        let address = Ipv4Addr::new(10, 77, 0, 10 + number);
        self.hub.ip(&format!(
            "link add v{number} type veth peer name eth0 netns {}",
            pod.pid()
        ));
        self.hub.ip(&format!("link set v{number} master br0 up"));
        pod.ip(&format!("addr add {address}/24 dev eth0"));
        pod.ip("link set eth0 up");
        (pod, address)
    }
}
