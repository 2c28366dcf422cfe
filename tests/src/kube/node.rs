//! A node: the first process of its own process, mount and network namespaces, and what it starts.
//!
//! Killing this process is a power failure: the kernel ends everything in the node at once. What a real machine loses with
//! its power is in the node's own mount namespace and goes too; what is on its disk is in its folder and stays.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::{
    mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount},
    process::{WaitOptions, wait},
};
use serde_json::{Value, json};

use super::{
    Config,
    cgroups::Cgroups,
    containerd,
    network::{CLUSTER_DOMAIN, DNS_SERVICE, PODS, node_address, node_name, pod_range, prepare_node},
    paths::Folder,
};

/// Kernel settings of the whole machine that a kubelet overwrites.
const HOST_SETTINGS: [&str; 6] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];

/// Writes what node `n` keeps on its disk before its first start.
pub(super) fn create_disk(folder: &Folder, config: &Config, n: u8, images: &Path) -> Result<()> {
    let disk = folder.node(n);
    for part in ["kubelet", "log", "cni-cache", "cni"] {
        fs::create_dir_all(disk.join(part))?;
    }
    containerd::populate(images, &disk.join("containerd"))?;
    fs::write(
        disk.join("containerd.toml"),
        containerd::node_config(&disk.join("containerd"), &disk.join("cni")),
    )?;
    fs::write(disk.join("cni/10-bridge.conflist"), serde_json::to_vec_pretty(&cni(n))?)?;
    fs::write(
        disk.join("kubelet.json"),
        serde_json::to_vec_pretty(&kubelet(folder, config, n))?,
    )?;
    // Pods' names are resolved in the cluster only.
    fs::write(disk.join("resolv.conf"), "")?;
    Ok(())
}

fn cni(n: u8) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [{
            "type": "bridge",
            "bridge": "pods",
            "isGateway": true,
            // Other nodes are to see Pods' own addresses.
            "ipMasq": false,
            "hairpinMode": true,
            "ipam": {
                "type": "host-local",
                "ranges": [[{ "subnet": pod_range(n) }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
                "dataDir": "/run/cni-addresses",
            },
        }],
    })
}

fn kubelet(folder: &Folder, config: &Config, n: u8) -> Value {
    let mut kubelet = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0",
        "authentication": { "anonymous": { "enabled": false }, "x509": { "clientCAFile": folder.pki("ca.crt") } },
        "tlsCertFile": folder.pki("kubelet.crt"),
        "tlsPrivateKeyFile": folder.pki("kubelet.key"),
        "containerRuntimeEndpoint": format!("unix://{}", containerd::SOCKET),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": Cgroups::of(folder.id()).node_root(n),
        "enforceNodeAllocatable": [],
        "failCgroupV1": false,
        "failSwapOn": false,
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": folder.node(n).join("resolv.conf"),
        // The disk is the host's: how full it is says nothing about this cluster.
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,
        "maxPods": 250,
        // Many Pods at once are not to wait for each other.
        "serializeImagePulls": false,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "kubeAPIQPS": 500,
        "kubeAPIBurst": 1000,
    });
    if config.quick_node_loss {
        kubelet["nodeLeaseDurationSeconds"] = json!(4);
        kubelet["nodeStatusUpdateFrequency"] = json!("1s");
    }
    kubelet
}

/// The first process of node `n`. Returns only with an error.
pub fn run(folder: &Folder, n: u8) -> Result<()> {
    let disk = folder.node(n);
    prepare_mounts(&disk)?;
    prepare_node()?;
    let log = |program: &str| folder.log(&format!("{program}-{n}"));
    let mut running = vec![(
        "containerd",
        containerd::start(&disk.join("containerd.toml"), &log("containerd"))?,
    )];
    // A kubelet that finds no API server waits longer and longer between its tries to register.
    while !folder.join("api-ready").exists() {
        thread::sleep(Duration::from_millis(20));
    }
    for program in ["kubelet", "kube-proxy"] {
        running.push((program, start(folder, n, program)?));
    }
    loop {
        // The first process is the parent of every process that lost its own.
        let Some((pid, status)) = wait(WaitOptions::empty())? else {
            continue;
        };
        let Some(index) = running
            .iter()
            .position(|(_, child)| child.id().cast_signed() == pid.as_raw_nonzero().get())
        else {
            continue;
        };
        let (program, _) = running.swap_remove(index);
        eprintln!("{program} ended ({status:?}); starting it again");
        thread::sleep(Duration::from_secs(1));
        let child = if program == "containerd" {
            containerd::start(&disk.join("containerd.toml"), &log("containerd"))?
        } else {
            start(folder, n, program)?
        };
        running.push((program, child));
    }
}

fn prepare_mounts(disk: &Path) -> Result<()> {
    // The machine's, with the namespaces of all nodes in it.
    unmount("/run", UnmountFlags::DETACH).context("cannot leave the machine's /run")?;
    mount("run", "/run", "tmpfs", MountFlags::empty(), Some(c"mode=755"))?;
    for folder in ["/run/netns", "/run/containerd", "/run/settings"] {
        fs::create_dir_all(folder)?;
    }
    for (part, target) in [
        ("kubelet", "/var/lib/kubelet"),
        ("log", "/var/log"),
        ("cni-cache", "/var/lib/cni"),
    ] {
        mount_bind(disk.join(part), target).with_context(|| format!("cannot mount the node's {target}"))?;
    }
    for setting in HOST_SETTINGS {
        let host = Path::new("/proc/sys").join(setting);
        let copy = Path::new("/run/settings").join(setting.replace('/', "."));
        if let Ok(value) = fs::read(&host) {
            fs::write(&copy, value)?;
            mount_bind(&copy, &host).with_context(|| format!("cannot cover {}", host.display()))?;
        }
    }
    Ok(())
}

fn start(folder: &Folder, n: u8, program: &str) -> Result<Child> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(folder.log(&format!("{program}-{n}")))?;
    let mut command = Command::new(folder.bin(program));
    command.arg(format!("--hostname-override={}", node_name(n)));
    if program == "kubelet" {
        command
            .arg(format!("--config={}", folder.node(n).join("kubelet.json").display()))
            .arg(format!("--kubeconfig={}", folder.inner_kubeconfig().display()))
            .arg(format!("--node-ip={}", node_address(n)));
    } else {
        command
            .arg(format!("--kubeconfig={}", folder.inner_kubeconfig().display()))
            .arg(format!("--cluster-cidr={PODS}"))
            // 0 leaves the machine's own limit alone.
            .args([
                "--proxy-mode=iptables",
                "--conntrack-max-per-core=0",
                "--iptables-min-sync-period=100ms",
            ]);
    }
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {program}"))
}
