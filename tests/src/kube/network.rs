//! Addresses and links. Everything is inside the cluster's own network namespaces, so that the addresses are the same in
//! every cluster and nothing of it shows in the host's.
//!
//! The control plane's namespace has a bridge; each node has a namespace of its own, with a cable (a veth pair) to it.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

/// The API server and the gateway of the nodes.
pub(super) const CONTROL_PLANE: &str = "10.98.0.1";
/// The `ClusterIP` of the Service `kubernetes`.
pub(super) const KUBERNETES_SERVICE: &str = "10.95.0.1";
/// The `ClusterIP` of the DNS server.
pub(super) const DNS_SERVICE: &str = "10.95.0.10";
/// Where `ClusterIP`s are taken from.
pub(super) const SERVICES: &str = "10.95.0.0/16";
/// Where the nodes' Pod ranges are taken from.
pub(super) const PODS: &str = "10.243.0.0/16";
/// The domain of the cluster's DNS names.
pub(super) const CLUSTER_DOMAIN: &str = "cluster.local";

const BRIDGE: &str = "nodes";

/// The address of node `n`.
pub(super) fn node_address(n: u8) -> String {
    format!("10.98.0.{}", 10 + n)
}

/// The Pod addresses of node `n`.
pub(super) fn pod_range(n: u8) -> String {
    format!("10.243.{n}.0/24")
}

/// The name of node `n`, of its network namespace and of its cable.
#[must_use]
pub fn node_name(n: u8) -> String {
    format!("n{n}")
}

/// The network namespace of node `n`, as seen from the machine.
pub(super) fn node_namespace(n: u8) -> PathBuf {
    PathBuf::from(format!("/run/netns/{}", node_name(n)))
}

/// Makes the calling process's network namespace the control plane's.
pub(super) fn create_control_plane(nodes: u8) -> Result<()> {
    let mut script = format!(
        "link set lo up\nlink add {BRIDGE} type bridge\naddr add {CONTROL_PLANE}/24 dev {BRIDGE}\nlink set {BRIDGE} up\n"
    );
    for n in 1..=nodes {
        script += &route(n);
    }
    ip(&[], &script)?;
    // Here the bridge is a plain switch; its frames are none of this namespace's packet filter.
    set("net/bridge/bridge-nf-call-iptables", "0")
}

/// Makes node `n`'s namespace and plugs it in. Its former one, if any, is gone with all that was in it.
pub(super) fn create_node(n: u8, nodes: u8) -> Result<()> {
    let name = node_name(n);
    remove_node(n)?;
    ip(&[], &format!("netns add {name}\n"))?;
    ip(
        &[],
        &format!("link add {name} type veth peer name eth0 netns {name}\nlink set {name} master {BRIDGE} up\n"),
    )?;
    let mut script = format!(
        "link set lo up\naddr add {}/24 dev eth0\nlink set eth0 up\nroute add default via {CONTROL_PLANE}\n",
        node_address(n)
    );
    for other in (1..=nodes).filter(|other| *other != n) {
        script += &route(other);
    }
    ip(&["-n", &name], &script)
}

fn route(n: u8) -> String {
    format!("route add {} via {}\n", pod_range(n), node_address(n))
}

/// Removes node `n`'s namespace; the cable goes at once, the rest when no process is left in it.
pub(super) fn remove_node(n: u8) -> Result<()> {
    let name = node_name(n);
    if node_namespace(n).exists() {
        ip(&[], &format!("link del {name}\nnetns del {name}\n"))?;
    }
    Ok(())
}

/// Pulls or plugs node `n`'s cable.
pub(super) fn connect_node(n: u8, connected: bool) -> Result<()> {
    ip(
        &[],
        &format!("link set {} {}\n", node_name(n), if connected { "up" } else { "down" }),
    )
}

/// What a node's own namespace needs before Pods run in it. Called by a process inside of it.
pub(super) fn prepare_node() -> Result<()> {
    set("net/ipv4/ip_forward", "1")?;
    // A ClusterIP whose backend is on the same node is answered over the Pods' bridge.
    set("net/bridge/bridge-nf-call-iptables", "1")
}

fn set(variable: &str, value: &str) -> Result<()> {
    let path = format!("/proc/sys/{variable}");
    fs::write(&path, value).with_context(|| format!("cannot set {path}; is the kernel module br_netfilter loaded?"))
}

/// Runs a batch of `ip` commands.
fn ip(options: &[&str], script: &str) -> Result<()> {
    let mut child = Command::new("ip")
        .args(options)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start ip; install iproute2")?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(script.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!(
            "ip {} failed: {}; it was given: {script}",
            options.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}
