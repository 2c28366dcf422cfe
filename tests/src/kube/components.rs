//! The programs of the local Kubernetes, built from pinned Go modules, once, into the cache.
//!
//! Each component has a key of its own, made of its pins, its sources, its flags and the Go version: a changed pin builds
//! that component only. A build goes to a temporary folder that is renamed when complete, under a lock, so that neither an
//! interrupted build nor two builds at a time leave a half-made component.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::{
    Progress,
    paths::{cache, hex, project},
};

/// The Kubernetes version that the local cluster runs; the same as in `kube/go/kubernetes/go.mod`.
pub const KUBERNETES: &str = "1.34.4";
/// The etcd versions that can be run, oldest first: each served minor, and an older patch to upgrade from.
pub const ETCD: [&str; 4] = ["3.5.35", "3.6.8", "3.6.16", "3.7.3"];
/// The etcd version under the API server of the local cluster.
pub const CONTROL_PLANE_ETCD: &str = "3.6.16";

const KUBERNETES_PROGRAMS: [&str; 6] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
];

/// One Go module of `kube/go` and what it builds.
#[derive(Clone, Debug)]
struct Component {
    /// Its folder in `kube/go`, which is its name in the cache too.
    name: String,
    /// File name of each program, and the package that it is built from.
    programs: Vec<(&'static str, &'static str)>,
    /// Further names that the first program is started by.
    links: &'static [&'static str],
    ldflags: String,
}

impl Component {
    fn kubernetes() -> Self {
        let variable = |name: &str, value: &str| format!("-X k8s.io/component-base/version.{name}={value}");
        let mut parts = KUBERNETES.split('.');
        let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        Self {
            name: "kubernetes".into(),
            programs: vec![("kubernetes", ".")],
            links: &KUBERNETES_PROGRAMS,
            ldflags: [
                variable("gitVersion", &format!("v{KUBERNETES}")),
                variable("gitMajor", major),
                variable("gitMinor", minor),
            ]
            .join(" "),
        }
    }

    fn plain(name: &str, programs: Vec<(&'static str, &'static str)>) -> Self {
        Self {
            name: name.into(),
            programs,
            links: &[],
            ldflags: String::new(),
        }
    }

    fn coredns() -> Self {
        Self::plain("coredns", vec![("coredns", "github.com/coredns/coredns")])
    }

    fn pause() -> Self {
        Self::plain("pause", vec![("pause", ".")])
    }

    fn etcd(version: &str) -> Self {
        let programs = vec![
            ("etcd", "go.etcd.io/etcd/server/v3"),
            ("etcdctl", "go.etcd.io/etcd/etcdctl/v3"),
            ("etcdutl", "go.etcd.io/etcd/etcdutl/v3"),
        ];
        Self::plain(&format!("etcd-{version}"), programs)
    }

    fn linearize() -> Self {
        Self::plain("linearize", vec![("linearize", ".")])
    }

    /// What the local Kubernetes is made of.
    fn of_kubernetes() -> Vec<Self> {
        let mut all: Vec<Self> = ETCD.iter().map(|version| Self::etcd(version)).collect();
        all.extend([Self::pause(), Self::coredns(), Self::kubernetes()]);
        all
    }

    fn all() -> Vec<Self> {
        let mut all = Self::of_kubernetes();
        all.push(Self::linearize());
        all
    }

    fn sources(&self) -> PathBuf {
        project().join("tests/kube/go").join(&self.name)
    }

    /// Where it is in the cache once built.
    fn folder(&self) -> Result<PathBuf> {
        let mut key = Sha256::new();
        let sources = self.sources();
        for file in ["go.mod", "go.sum", "main.go"] {
            if let Ok(content) = fs::read(sources.join(file)) {
                key.update(content);
            }
        }
        key.update(format!(
            "{:?} {:?} {} {}",
            self.programs,
            self.links,
            self.ldflags,
            go_version()?
        ));
        Ok(cache()?.join(format!("{}-{}", self.name, &hex(&key.finalize())[..16])))
    }

    fn build(&self, progress: &Progress) -> Result<PathBuf> {
        let folder = self.folder()?;
        if folder.exists() {
            return Ok(folder);
        }
        let _lock = lock(&folder)?;
        if folder.exists() {
            return Ok(folder);
        }
        progress.say(&format!(
            "building {} (once; kept in {})",
            self.name,
            cache()?.display()
        ));
        let unfinished = beside(&folder, "unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        fs::create_dir_all(&unfinished)?;
        for (program, package) in &self.programs {
            self.go_build(&unfinished.join(program), package, progress)?;
        }
        for link in self.links {
            symlink(self.programs[0].0, unfinished.join(link))?;
        }
        fs::rename(&unfinished, &folder)?;
        Ok(folder)
    }

    fn go_build(&self, output: &Path, package: &str, progress: &Progress) -> Result<()> {
        let mut go = Command::new("go")
            .current_dir(self.sources())
            .env("CGO_ENABLED", "0")
            .args(["build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags"])
            .arg(format!("-s -w {}", self.ldflags))
            .arg("-o")
            .arg(output)
            .arg(package)
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start go; install Go 1.26 or newer")?;
        let mut waited = 0;
        let status = loop {
            if let Some(status) = go.try_wait()? {
                break status;
            }
            thread::sleep(Duration::from_millis(200));
            waited += 1;
            if waited % 150 == 0 {
                progress.say(&format!("  still building {} ({} s)", self.name, waited / 5));
            }
        };
        if !status.success() {
            bail!("go build of {} failed ({status}); its messages are above", self.name);
        }
        Ok(())
    }
}

/// Where the built programs are.
#[derive(Clone, Debug)]
pub struct Binaries;

impl Binaries {
    /// Builds what the cache does not have.
    pub fn build(progress: &Progress) -> Result<()> {
        for component in Component::all() {
            component.build(progress)?;
        }
        Ok(())
    }

    /// One of the Kubernetes programs: `kubectl`, `kubelet`, `kube-apiserver`, ...
    pub fn kubernetes(program: &str) -> Result<PathBuf> {
        Ok(Component::kubernetes().build(&Progress::stderr())?.join(program))
    }

    /// The client that people use.
    pub fn kubectl() -> Result<PathBuf> {
        Self::kubernetes("kubectl")
    }

    /// The DNS server.
    pub fn coredns() -> Result<PathBuf> {
        Ok(Component::coredns().build(&Progress::stderr())?.join("coredns"))
    }

    /// The process that holds a Pod's namespaces.
    pub fn pause() -> Result<PathBuf> {
        Ok(Component::pause().build(&Progress::stderr())?.join("pause"))
    }

    /// The checker of clients' histories.
    pub fn linearize() -> Result<PathBuf> {
        Ok(Component::linearize().build(&Progress::stderr())?.join("linearize"))
    }

    /// The etcd server of one of the versions in [`ETCD`].
    pub fn etcd(version: &str) -> Result<PathBuf> {
        Self::of_etcd(version, "etcd")
    }

    /// `etcdctl` of one of the versions in [`ETCD`].
    pub fn etcdctl(version: &str) -> Result<PathBuf> {
        Self::of_etcd(version, "etcdctl")
    }

    /// `etcdutl` of one of the versions in [`ETCD`].
    pub fn etcdutl(version: &str) -> Result<PathBuf> {
        Self::of_etcd(version, "etcdutl")
    }

    fn of_etcd(version: &str, program: &str) -> Result<PathBuf> {
        if !ETCD.contains(&version) {
            bail!("etcd {version} is not built here; use one of {}", ETCD.join(", "));
        }
        Ok(Component::etcd(version).build(&Progress::stderr())?.join(program))
    }
}

/// A name for what the built images depend on: the key of every component in them.
pub(super) fn key_of_all() -> Result<String> {
    let mut key = Sha256::new();
    for component in Component::of_kubernetes() {
        key.update(component.folder()?.as_os_str().as_encoded_bytes());
    }
    Ok(hex(&key.finalize()))
}

/// The path with that added to its name. (A version's last number is no extension to be replaced.)
pub(super) fn beside(folder: &Path, extension: &str) -> PathBuf {
    let mut path = folder.as_os_str().to_owned();
    path.push(".");
    path.push(extension);
    path.into()
}

/// Waits for the right to make `folder` of the cache. Given back when the file is dropped, or its process ends.
pub(super) fn lock(folder: &Path) -> Result<File> {
    fs::create_dir_all(folder.parent().context("the cache folder has no parent")?)?;
    let path = beside(folder, "lock");
    let mut file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    let _ = writeln!(file, "{}", std::process::id());
    Ok(file)
}

fn go_version() -> Result<&'static str> {
    static VERSION: OnceLock<String> = OnceLock::new();
    if let Some(version) = VERSION.get() {
        return Ok(version);
    }
    let output = Command::new("go").args(["env", "GOVERSION", "GOARCH"]).output();
    let output = output.context("cannot start go; install Go 1.26 or newer")?;
    if !output.status.success() {
        bail!("`go env` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(VERSION.get_or_init(|| String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_named_here_are_those_of_the_go_modules() {
        let kubernetes = fs::read_to_string(Component::kubernetes().sources().join("go.mod")).unwrap();
        assert!(kubernetes.contains(&format!("k8s.io/kubernetes v{KUBERNETES}\n")));
        for version in ETCD {
            let etcd = fs::read_to_string(Component::etcd(version).sources().join("go.mod")).unwrap();
            for module in ["server", "etcdctl", "etcdutl"] {
                let pin = format!("go.etcd.io/etcd/{module}/v3 v{version}");
                assert!(etcd.contains(&pin), "{version} has no {pin}");
            }
        }
    }

    #[test]
    fn an_unknown_etcd_version_is_refused_with_the_known_ones() {
        let error = Binaries::etcd("3.4.0").unwrap_err().to_string();
        assert!(error.contains("3.6.16"), "{error}");
    }
}
