//! The local Kubernetes itself: what tests rely on when they use it.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    fs,
    future::Future,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use tests::kube::{Config, Folder, Image, LocalKube, MAX_NODES, Place};

const POD: &str = r"
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: front}
spec: {selector: {app: db}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 8Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: db-0, labels: {app: db}}
spec:
  hostname: db-0
  subdomain: db
  terminationGracePeriodSeconds: 0
  containers:
    - name: main
      image: localhost/greeter:1
      imagePullPolicy: Never
      volumeMounts: [{name: disk, mountPath: /data}]
  volumes: [{name: disk, persistentVolumeClaim: {claimName: disk}}]
";

#[tokio::test]
async fn a_pod_runs_a_loaded_image_is_found_by_name_and_address_and_has_a_disk_of_exactly_the_size_asked_for() {
    let kube = LocalKube::up(Config::new("self-pod")).await.unwrap();
    let client = kube.client().await.unwrap();
    let archive = greeter(kube.folder());
    kube.load_image(&archive).await.unwrap();
    apply(&kube, POD);
    kubectl(&kube, &["wait", "--for=condition=Ready", "pod/db-0", "--timeout=60s"]);
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let address = pods.get("db-0").await.unwrap().status.unwrap().pod_ip.unwrap();
    let in_pod = |command: &str| run(kube.kubectl().args(["exec", "db-0", "--", "sh", "-c", command]));

    // A new name may be in the cache of those that are not there for a few seconds.
    eventually("the Pod's name in DNS", async || {
        in_pod("nslookup db-0.db.default.svc.cluster.local")
            .1
            .contains(&format!("Address: {address}"))
    })
    .await;
    let (_, reverse) = in_pod(&format!("nslookup {address}"));
    assert!(
        reverse.contains("name = db-0.db.default.svc.cluster.local"),
        "{reverse}"
    );
    let (found, unknown) = in_pod("nslookup nobody.db.default.svc.cluster.local");
    assert!(!found && unknown.contains("NXDOMAIN"), "{unknown}");

    let from_host = kube
        .forward(Place::ControlPlane, format!("{address}:8080").parse().unwrap())
        .unwrap();
    assert_eq!(greeting(from_host.address()), "hello\n");
    let (_, service) = run(kube
        .kubectl()
        .args(["get", "service", "front", "-o", "jsonpath={.spec.clusterIP}"]));
    let through_service = kube
        .forward(Place::Node(1), format!("{service}:80").parse().unwrap())
        .unwrap();
    assert_eq!(greeting(through_service.address()), "hello\n");

    let fill = "dd if=/dev/zero of=/data/a bs=1024k count=10; wc -c </data/a";
    let (_, filled) = in_pod(fill);
    assert!(
        filled.contains("No space left on device") && filled.ends_with("8388608\n"),
        "{filled}"
    );
    let grow = r#"{"spec":{"resources":{"requests":{"storage":"12Mi"}}}}"#;
    kubectl(&kube, &["patch", "pvc", "disk", "--patch", grow]);
    kubectl(
        &kube,
        &[
            "wait",
            "pvc/disk",
            "--for=jsonpath={.status.capacity.storage}=12Mi",
            "--timeout=30s",
        ],
    );
    let (_, filled) = in_pod(fill);
    assert!(filled.ends_with("10485760\n"), "{filled}");

    pods.delete("db-0", &DeleteParams::default()).await.unwrap();
    kubectl(&kube, &["delete", "pvc", "disk"]);
    let volumes = Api::<PersistentVolume>::all(client);
    eventually("the volume to be reclaimed", async || {
        volumes
            .list(&ListParams::default())
            .await
            .is_ok_and(|list| list.items.is_empty())
    })
    .await;
    kube.down().await.unwrap();
}

#[tokio::test]
async fn two_clusters_run_side_by_side_and_each_leaves_nothing_at_its_end() {
    let before = Traces::of_host();
    let (first, second) = tokio::join!(
        LocalKube::up(Config::new("self-first")),
        LocalKube::up(Config::new("self-second"))
    );
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(
        Traces::of_host(),
        before,
        "the host's links, mounts and packet filter are its own"
    );

    apply(&first, "{apiVersion: v1, kind: ConfigMap, metadata: {name: mine}}");
    let (_, seen) = run(second.kubectl().args(["get", "configmap", "mine"]));
    assert!(seen.contains("NotFound"), "{seen}");

    let folder = first.folder().clone();
    assert!(!Traces::of(&folder).is_empty());
    first.down().await.unwrap();
    assert_eq!(Traces::of(&folder), Vec::<String>::new());

    let client = second.client().await.unwrap();
    assert_eq!(
        Api::<Node>::all(client)
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    let folder = second.folder().clone();
    // As when its owner dies: the guard sees the end of the pipe.
    drop(second);
    assert_eq!(Traces::of(&folder), Vec::<String>::new());
    assert_eq!(Traces::of_host(), before);
}

#[tokio::test]
async fn what_was_killed_half_way_up_is_cleared_away_by_down_and_by_the_next_up() {
    let name = "self-killed";
    let folder = Folder::of(name).unwrap();
    for (killed, next) in [("up", "down"), ("guard", "down"), ("guard", "up")] {
        let mut up = Command::new(env!("CARGO_BIN_EXE_local-kube"))
            .args(["up", "--name", name])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Half-way: cgroups, mounts and links are there, the cluster is not ready.
        eventually("the API server to answer", async || folder.join("api-ready").exists()).await;
        assert!(!folder.kubeconfig().exists(), "no longer half-way");
        if killed == "up" {
            up.kill().unwrap();
        } else {
            let guard = fs::read_to_string(folder.join("lock")).unwrap();
            assert!(run(Command::new("kill").args(["-9", guard.trim()])).0);
            eventually("the machine to die with its guard", async || {
                !Traces::of(&folder).iter().any(|trace| trace.starts_with("process"))
            })
            .await;
            assert!(
                Traces::of(&folder).iter().any(|trace| trace.starts_with("cgroup")),
                "nothing to clear away"
            );
        }
        up.wait().unwrap();
        if next == "up" {
            LocalKube::up(Config::new(name)).await.unwrap().down().await.unwrap();
        } else {
            LocalKube::take_down(name).await.unwrap();
        }
        assert_eq!(
            Traces::of(&folder),
            Vec::<String>::new(),
            "after {killed} was killed, {next}"
        );
    }
}

#[tokio::test]
async fn nodes_lose_their_power_or_their_network_and_come_back_with_their_disks() {
    let kube = LocalKube::up(Config {
        nodes: 2,
        quick_node_loss: true,
        ..Config::new("self-nodes")
    })
    .await
    .unwrap();
    let client = kube.client().await.unwrap();
    let archive = greeter(kube.folder());
    kube.load_image(&archive).await.unwrap();
    let pinned = POD.replace(
        "  terminationGracePeriodSeconds",
        "  nodeSelector: {kubernetes.io/hostname: n2}\n  terminationGracePeriodSeconds",
    ) + "  tolerations: [{operator: Exists}]\n";
    apply(&kube, &pinned);
    kubectl(&kube, &["wait", "--for=condition=Ready", "pod/db-0", "--timeout=60s"]);
    let in_pod = |command: &str| run(kube.kubectl().args(["exec", "db-0", "--", "sh", "-c", command]));
    assert!(in_pod("echo kept >/data/a").0);

    kube.cut_off(2).await.unwrap();
    ready(&client, "n2", false).await;
    kube.reconnect(2).await.unwrap();
    ready(&client, "n2", true).await;
    assert_eq!(in_pod("cat /data/a").1, "kept\n");

    kube.node_power_off(2).await.unwrap();
    ready(&client, "n2", false).await;
    kube.node_power_on(2).await.unwrap();
    ready(&client, "n2", true).await;
    eventually("the Pod to run again", async || in_pod("cat /data/a").1 == "kept\n").await;

    // The disk is lost: an empty one of the same size in its place.
    kubectl(&kube, &["delete", "pod", "db-0", "--force"]);
    let volumes = Api::<PersistentVolume>::all(client.clone())
        .list(&ListParams::default())
        .await
        .unwrap();
    kube.lose_volume(volumes.items[0].metadata.name.as_ref().unwrap())
        .await
        .unwrap();
    apply(&kube, &pinned);
    kubectl(&kube, &["wait", "--for=condition=Ready", "pod/db-0", "--timeout=60s"]);
    let (_, disk) = in_pod("ls /data; df -k /data");
    assert!(disk.contains(" 8192 ") && !disk.starts_with('a'), "{disk}");

    kube.freeze("kube-apiserver").await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(2), client.apiserver_version()).await;
    assert!(answer.is_err(), "the frozen API server has answered: {answer:?}");
    kube.thaw("kube-apiserver").await.unwrap();
    eventually("the API server to answer", async || {
        client.apiserver_version().await.is_ok()
    })
    .await;

    let error = kube.node_power_off(MAX_NODES + 1).await.unwrap_err().to_string();
    assert!(error.contains("the nodes are 1 to 2"), "{error}");
    kube.down().await.unwrap();
}

/// An image that answers every connection to port 8080.
fn greeter(folder: &Folder) -> PathBuf {
    let archive = folder.join("greeter.tar");
    let tools = ["sh", "cat", "dd", "df", "ls", "nc", "nslookup", "wc"];
    let image = Image {
        name: "localhost/greeter:1".into(),
        files: vec![("/usr/bin/busybox".into(), "/bin/busybox".into())],
        links: tools.map(|tool| ("busybox".into(), format!("/bin/{tool}"))).into(),
        command: ["/bin/sh", "-c", "while true; do echo hello | nc -l -p 8080; done"]
            .map(String::from)
            .into(),
        ..Image::default()
    };
    image.write(&archive).unwrap();
    archive
}

fn greeting(address: std::net::SocketAddr) -> String {
    // The greeter serves one connection after the other, with a moment between.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let mut text = String::new();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let _ = stream.read_to_string(&mut text);
        if !text.is_empty() || Instant::now() > deadline {
            return text;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn apply(kube: &LocalKube, manifests: &str) {
    let mut child = kube
        .kubectl()
        .args(["apply", "-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(manifests.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

fn kubectl(kube: &LocalKube, args: &[&str]) {
    let (success, output) = run(kube.kubectl().args(args));
    assert!(success, "kubectl {args:?}: {output}");
}

/// Whether it ended well, and what it said on both outputs.
fn run(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = [output.stderr, output.stdout].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

async fn ready(client: &kube::Client, name: &str, wanted: bool) {
    let nodes = Api::<Node>::all(client.clone());
    eventually(&format!("the Ready condition of {name} to be {wanted}"), async || {
        let conditions = nodes
            .get(name)
            .await
            .unwrap()
            .status
            .unwrap()
            .conditions
            .unwrap_or_default();
        conditions
            .iter()
            .any(|c| c.type_ == "Ready" && (c.status == "True") == wanted)
    })
    .await;
}

async fn eventually<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !condition().await {
        assert!(Instant::now() < deadline, "waited 90 s for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What a cluster can leave on a machine.
struct Traces;

impl Traces {
    /// That of one cluster: its processes, folder, mounts and cgroups.
    fn of(folder: &Folder) -> Vec<String> {
        let path = folder.path().to_str().unwrap();
        let mut found = vec![];
        for entry in fs::read_dir("/proc").unwrap() {
            let entry = entry.unwrap().path();
            let line = fs::read(entry.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(&format!("{path} ")) || line.contains(&format!("{path}/")) {
                found.push(format!("process {line}"));
            }
        }
        if folder.path().exists() {
            found.push(format!("folder {path}"));
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        found.extend(
            mounts
                .lines()
                .filter(|line| line.contains(path))
                .map(|line| format!("mount {line}")),
        );
        for hierarchy in fs::read_dir("/sys/fs/cgroup").unwrap() {
            let hierarchy = hierarchy.unwrap().path();
            let own = if hierarchy.is_dir() {
                hierarchy.join(folder.id())
            } else {
                PathBuf::new()
            };
            if own.exists() || hierarchy.ends_with(folder.id()) {
                found.push(format!("cgroup {}", hierarchy.display()));
            }
        }
        found
    }

    /// Those of all clusters that the host's own namespaces can show: links, named network namespaces, packet filter.
    fn of_host() -> Vec<String> {
        let links = fs::read_to_string("/proc/net/dev").unwrap();
        // The counters differ.
        let mut found: Vec<String> = links
            .lines()
            .map(|line| line.split(':').next().unwrap().trim().to_owned())
            .collect();
        let named = fs::read_dir("/run/netns").into_iter().flatten();
        found.extend(named.map(|name| name.unwrap().path().display().to_string()));
        if Path::new("/usr/sbin/iptables-save").exists() {
            let (_, rules) = run(Command::new("iptables-save").stderr(Stdio::null()));
            found.extend(rules.lines().filter(|line| line.starts_with('-')).map(String::from));
        }
        found
    }
}
