//! The command lines of etcd, the API server, the controllers and the scheduler.

use std::ffi::OsString;

use super::{
    Config,
    network::{CLUSTER_DOMAIN, CONTROL_PLANE, PODS, SERVICES},
    paths::Folder,
};

/// A program and its arguments.
pub(super) struct Program {
    /// The name in the cluster's `bin` folder and of its log.
    pub name: &'static str,
    /// What it is started with.
    pub args: Vec<OsString>,
}

struct Args(Vec<OsString>);

impl Args {
    fn plain(mut self, args: &[&str]) -> Self {
        self.0.extend(args.iter().map(OsString::from));
        self
    }

    fn path(mut self, flag: &str, path: std::path::PathBuf) -> Self {
        let mut arg = OsString::from(flag);
        arg.push("=");
        arg.push(path);
        self.0.push(arg);
        self
    }
}

/// The store of the API server. What it holds ends with the cluster, so it need not reach the disk.
pub(super) fn etcd(folder: &Folder) -> Program {
    let args = Args(vec![]).path("--data-dir", folder.join("etcd")).plain(&[
        "--name=kube",
        "--unsafe-no-fsync",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--initial-advertise-peer-urls=http://127.0.0.1:2380",
        "--initial-cluster=kube=http://127.0.0.1:2380",
        "--log-level=warn",
    ]);
    Program {
        name: "etcd",
        args: args.0,
    }
}

/// The API server.
pub(super) fn api_server(folder: &Folder, config: &Config) -> Program {
    let mut args = Args(vec![])
        .path("--tls-cert-file", folder.pki("apiserver.crt"))
        .path("--tls-private-key-file", folder.pki("apiserver.key"))
        .path("--client-ca-file", folder.pki("ca.crt"))
        .path("--kubelet-certificate-authority", folder.pki("ca.crt"))
        .path("--kubelet-client-certificate", folder.pki("admin.crt"))
        .path("--kubelet-client-key", folder.pki("admin.key"))
        .path("--service-account-key-file", folder.pki("accounts.pub"))
        .path("--service-account-signing-key-file", folder.pki("accounts.key"))
        .path("--requestheader-client-ca-file", folder.pki("ca.crt"))
        .path("--proxy-client-cert-file", folder.pki("front-proxy.crt"))
        .path("--proxy-client-key-file", folder.pki("front-proxy.key"))
        .plain(&[
            "--etcd-servers=http://127.0.0.1:2379",
            "--secure-port=6443",
            "--kubelet-preferred-address-types=InternalIP",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            // Webhooks are called at their Pods: no kube-proxy here answers for ClusterIPs.
            "--enable-aggregator-routing=true",
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            "--profiling=false",
            // What meshes and VPAs do to Pods on admission, without a webhook.
            "--feature-gates=MutatingAdmissionPolicy=true",
            "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
        ])
        .plain(&[
            &format!("--advertise-address={CONTROL_PLANE}"),
            &format!("--service-cluster-ip-range={SERVICES}"),
            &format!("--service-account-issuer=https://kubernetes.default.svc.{CLUSTER_DOMAIN}"),
        ]);
    if config.quick_node_loss {
        args = args.plain(&[
            "--default-not-ready-toleration-seconds=3",
            "--default-unreachable-toleration-seconds=3",
        ]);
    }
    Program {
        name: "kube-apiserver",
        args: args.0,
    }
}

/// The controllers. Their client is not throttled: the default of 20 requests a second is what many Pods at once wait for.
pub(super) fn controllers(folder: &Folder, config: &Config) -> Program {
    let mut args = Args(vec![])
        .path("--kubeconfig", folder.controllers_kubeconfig())
        .path("--root-ca-file", folder.pki("ca.crt"))
        .path("--service-account-private-key-file", folder.pki("accounts.key"))
        .plain(&[
            // Each controller by its own account, as in most clusters.
            "--use-service-account-credentials",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            "--concurrent-statefulset-syncs=10",
            "--concurrent-endpoint-syncs=10",
            "--concurrent-service-endpoint-syncs=10",
            "--profiling=false",
        ])
        .plain(&[
            &format!("--cluster-cidr={PODS}"),
            &format!("--service-cluster-ip-range={SERVICES}"),
        ]);
    if config.quick_node_loss {
        args = args.plain(&["--node-monitor-period=1s", "--node-monitor-grace-period=6s"]);
    }
    Program {
        name: "kube-controller-manager",
        args: args.0,
    }
}

/// The scheduler.
pub(super) fn scheduler(folder: &Folder) -> Program {
    let args = Args(vec![]).path("--kubeconfig", folder.inner_kubeconfig()).plain(&[
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--profiling=false",
    ]);
    Program {
        name: "kube-scheduler",
        args: args.0,
    }
}
