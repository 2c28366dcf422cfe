//! Where everything of the local Kubernetes lies on disk.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// The root of the project's work tree.
#[must_use]
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap_or_else(|_| PathBuf::from("."))
}

/// What is built once and kept: `$ETCD_OPERATOR_CACHE`, or `etcd-operator` in the user's cache folder.
pub(super) fn cache() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("ETCD_OPERATOR_CACHE") {
        return Ok(PathBuf::from(folder));
    }
    let home = env::var_os("HOME").context("neither ETCD_OPERATOR_CACHE nor HOME is set; set one of them")?;
    Ok(Path::new(&home).join(".cache/etcd-operator"))
}

/// The folder of one local cluster: all that it keeps on disk, and the lock that says whether it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder of the cluster of that name: `.local/<name>` of the project, or of `$LOCAL_KUBE_DIR` where set.
    pub fn of(name: &str) -> Result<Self> {
        let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 30 || !name.chars().all(valid) {
            bail!("{name:?} cannot name a local cluster; use 1 to 30 lower-case letters, digits and dashes");
        }
        let root = env::var_os("LOCAL_KUBE_DIR").map_or_else(|| project().join(".local"), PathBuf::from);
        let root = if root.is_absolute() {
            root
        } else {
            env::current_dir()?.join(root)
        };
        Ok(Self(root.join(name)))
    }

    /// The folder at that path, as a process of the cluster got it from its parent.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Its absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A path inside of it.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.join(path)
    }

    /// The administrator's kubeconfig, for processes of the host.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.join("kubeconfig")
    }

    /// The administrator's kubeconfig, for processes in the cluster's own networks.
    #[must_use]
    pub fn inner_kubeconfig(&self) -> PathBuf {
        self.join("inner.kubeconfig")
    }

    /// The controllers' own kubeconfig.
    #[must_use]
    pub fn controllers_kubeconfig(&self) -> PathBuf {
        self.join("controllers.kubeconfig")
    }

    /// A certificate or key.
    #[must_use]
    pub fn pki(&self, file: &str) -> PathBuf {
        self.join("pki").join(file)
    }

    /// The log of one program.
    #[must_use]
    pub fn log(&self, program: &str) -> PathBuf {
        self.join("logs").join(format!("{program}.log"))
    }

    /// What node `n` keeps on its disk.
    #[must_use]
    pub fn node(&self, n: u8) -> PathBuf {
        self.join(format!("n{n}"))
    }

    /// The volumes of all nodes; see `volumes`.
    #[must_use]
    pub fn volumes(&self) -> PathBuf {
        self.join("pv")
    }

    /// Programs of the cluster, by their names.
    #[must_use]
    pub fn bin(&self, program: &str) -> PathBuf {
        self.join("bin").join(program)
    }

    /// What tells this cluster's cgroups from those of a cluster with the same name in another work tree.
    #[must_use]
    pub fn id(&self) -> String {
        let name = self.0.file_name().unwrap_or_default().to_string_lossy();
        format!(
            "local-kube-{name}-{}",
            &hex(&Sha256::digest(self.0.as_os_str().as_encoded_bytes()))[..8]
        )
    }
}

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
