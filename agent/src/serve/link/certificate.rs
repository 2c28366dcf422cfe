//! The agent's own certificate and the CA of its callers, loaded anew when the mounted Secret changes. Connections that
//! stand keep what they have.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use proto::agent as wire;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::watch;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::client_check::OperatorOnly;

/// How often the files are looked at. kubelet itself takes up to a minute to bring a changed Secret.
const INTERVAL: Duration = Duration::from_secs(2);

/// The folder of `tls.crt`, `tls.key` and `ca.crt`.
#[derive(Debug, Clone)]
pub struct TlsFiles(PathBuf);

/// What was loaded.
#[derive(Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    certificate: wire::Certificate,
}

/// When the files were written: one value for all three, because kubelet swaps the whole folder by one link.
type Stamp = [Option<SystemTime>; 3];

impl TlsFiles {
    /// In this folder.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    fn paths(&self) -> [PathBuf; 3] {
        ["tls.crt", "tls.key", "ca.crt"].map(|name| self.0.join(name))
    }

    fn stamp(&self) -> Stamp {
        self.paths()
            .map(|path| std::fs::metadata(path).and_then(|file| file.modified()).ok())
    }

    fn load(&self) -> anyhow::Result<Loaded> {
        let [chain, key, roots] = self.paths();
        let chain = certificates(&chain)?;
        let key =
            PrivateKeyDer::from_pem_file(&key).with_context(|| format!("cannot read the key {}", key.display()))?;
        let mut trusted = RootCertStore::empty();
        for root in certificates(&roots)? {
            trusted
                .add(root)
                .with_context(|| format!("{} holds no CA certificate", roots.display()))?;
        }
        let certificate = describe(&chain)?;
        let mut config = ServerConfig::builder()
            .with_client_cert_verifier(OperatorOnly::new(trusted)?)
            .with_single_cert(chain, key)
            .context("tls.crt and tls.key do not fit together")?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A resumed session would skip the check of the client against a CA that has changed meanwhile.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Loaded {
            config: Arc::new(config),
            certificate,
        })
    }
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let all: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<_, _>>)
        .with_context(|| format!("cannot read certificates from {}", path.display()))?;
    anyhow::ensure!(!all.is_empty(), "{} holds no certificate", path.display());
    Ok(all)
}

fn describe(chain: &[CertificateDer<'_>]) -> anyhow::Result<wire::Certificate> {
    let leaf = chain.first().context("tls.crt holds no certificate")?;
    let (_, parsed) = X509Certificate::from_der(leaf).context("tls.crt cannot be parsed")?;
    let fingerprint = fingerprint_of(leaf);
    let not_after = prost_types::Timestamp {
        seconds: parsed.validity().not_after.timestamp(),
        nanos: 0,
    };
    Ok(wire::Certificate {
        not_after: Some(not_after),
        fingerprint,
    })
}

/// SHA-256, hex.
fn fingerprint_of(leaf: &CertificateDer<'_>) -> String {
    use sha2::{Digest as _, Sha256};
    Sha256::digest(leaf)
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

/// Keeps what new connections are served with. It waits for files that are not there yet: the Secret exists before the
/// Pod, but a broken one must be seen in the log and not as a crash loop.
pub async fn watch_files(
    files: TlsFiles,
    config: watch::Sender<Option<Arc<ServerConfig>>>,
    certificate: watch::Sender<Option<wire::Certificate>>,
) {
    let mut seen: Option<Stamp> = None;
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        ticks.tick().await;
        let stamp = files.stamp();
        if seen == Some(stamp) {
            continue;
        }
        match files.load() {
            Ok(loaded) => {
                tracing::info!(
                    fingerprint = loaded.certificate.fingerprint,
                    "certificate of the link loaded"
                );
                config.send_replace(Some(loaded.config));
                certificate.send_replace(Some(loaded.certificate));
            }
            // What was loaded before goes on being used; the next change is looked at again.
            Err(error) => tracing::error!(error = format!("{error:#}"), "certificate of the link cannot be loaded"),
        }
        // Files that changed while they were read are loaded once more.
        seen = Some(stamp);
    }
}
