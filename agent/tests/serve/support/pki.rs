//! A CA such as the operator's, and the certificates it issues.

use std::path::Path;
use std::sync::Arc;

use proto::names;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A CA.
pub struct Ca(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, PEM.
#[derive(Clone)]
pub struct Leaf {
    pub chain: String,
    pub key: String,
}

impl Ca {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, "agents");
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a CA"))
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    pub fn leaf(&self, name: &str, purposes: &[ExtendedKeyUsagePurpose]) -> Leaf {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.extended_key_usages = purposes.to_vec();
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Leaf {
            chain: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// For an agent: `serverAuth` only.
    pub fn agent(&self, member: &str, cluster_uid: &str) -> Leaf {
        self.leaf(
            &names::agent(member, cluster_uid),
            &[ExtendedKeyUsagePurpose::ServerAuth],
        )
    }

    /// For the operator: `clientAuth` only.
    pub fn operator(&self) -> Leaf {
        self.leaf(names::OPERATOR, &[ExtendedKeyUsagePurpose::ClientAuth])
    }
}

impl Leaf {
    /// As kubelet mounts a Secret: a new folder, swapped in by one link.
    pub fn mount(&self, ca: &str, folder: &Path) {
        let generation = format!("..{:?}", std::time::SystemTime::now()).replace([' ', '{', '}', ':'], "");
        let data = folder.join(&generation);
        std::fs::create_dir_all(&data).expect("a folder");
        for (name, content) in [("tls.crt", self.chain.as_str()), ("tls.key", &self.key), ("ca.crt", ca)] {
            std::fs::write(data.join(name), content).expect("a file");
            let link = folder.join(name);
            if !link.is_symlink() {
                std::os::unix::fs::symlink(Path::new("..data").join(name), link).expect("a link");
            }
        }
        let new = folder.join("..data_tmp");
        std::os::unix::fs::symlink(&generation, &new).expect("a link");
        std::fs::rename(new, folder.join("..data")).expect("the swap");
    }

    /// What a caller with this certificate uses, who trusts `ca`.
    pub fn client_config(&self, ca: &str) -> Arc<rustls::ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(ca.as_bytes()).expect("PEM"))
            .expect("a CA");
        let chain = CertificateDer::pem_slice_iter(self.chain.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("PEM");
        let mut config = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .expect("a pair");
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }
}
