//! The cluster's certificates, keys and kubeconfigs. Made anew at each start; they end with the cluster.

use std::{fs, net::SocketAddr};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use super::{network, paths::Folder};

/// Who may do everything: people, and the programs for which it does not matter.
const ADMIN: &str = "admin";
/// The controllers, under the name that they have in every cluster: admission rules know it.
const CONTROLLERS: &str = "controllers";

/// Writes all of them but the kubeconfig for the host, which appears when the cluster is ready.
pub(super) fn write(folder: &Folder, nodes: u8) -> Result<()> {
    fs::create_dir_all(folder.join("pki"))?;
    let ca = authority()?;
    fs::write(folder.pki("ca.crt"), ca.pem())?;

    let mut names: Vec<String> = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "localhost",
    ]
    .into_iter()
    .map(String::from)
    .collect();
    names.push(format!("kubernetes.default.svc.{}", network::CLUSTER_DOMAIN));
    names.extend(["127.0.0.1", network::CONTROL_PLANE, network::KUBERNETES_SERVICE].map(String::from));
    issue(folder, &ca, "apiserver", "kube-apiserver", None, names)?;
    let addresses = (1..=nodes).map(network::node_address).collect();
    issue(folder, &ca, "kubelet", "kubelet", None, addresses)?;
    issue(folder, &ca, "front-proxy", "front-proxy", None, vec![])?;
    issue(folder, &ca, ADMIN, "admin", Some("system:masters"), vec![])?;
    issue(folder, &ca, CONTROLLERS, "system:kube-controller-manager", None, vec![])?;

    let accounts = KeyPair::generate()?;
    fs::write(folder.pki("accounts.key"), accounts.serialize_pem())?;
    fs::write(folder.pki("accounts.pub"), accounts.public_key_pem())?;
    let server = format!("{}:6443", network::CONTROL_PLANE);
    fs::write(folder.inner_kubeconfig(), kubeconfig(folder, &server, ADMIN)?)?;
    fs::write(
        folder.controllers_kubeconfig(),
        kubeconfig(folder, &server, CONTROLLERS)?,
    )?;
    Ok(())
}

/// Writes the kubeconfig for processes of the host, whole or not at all.
pub(super) fn write_host_kubeconfig(folder: &Folder, api: SocketAddr) -> Result<()> {
    let unfinished = folder.join("kubeconfig.unfinished");
    fs::write(&unfinished, kubeconfig(folder, &api.to_string(), ADMIN)?)?;
    fs::rename(unfinished, folder.kubeconfig())?;
    Ok(())
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::new(vec![])?;
    params.distinguished_name = subject("local-kube", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

fn subject(name: &str, group: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    if let Some(group) = group {
        subject.push(DnType::OrganizationName, group);
    }
    subject
}

fn issue(
    folder: &Folder,
    ca: &CertifiedIssuer<'static, KeyPair>,
    file: &str,
    name: &str,
    group: Option<&str>,
    alternative_names: Vec<String>,
) -> Result<()> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(alternative_names)?;
    params.distinguished_name = subject(name, group);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, ca)?;
    fs::write(folder.pki(&format!("{file}.crt")), certificate.pem())?;
    fs::write(folder.pki(&format!("{file}.key")), key.serialize_pem())?;
    Ok(())
}

/// Self-contained, so that it can be copied elsewhere.
fn kubeconfig(folder: &Folder, server: &str, user: &str) -> Result<String> {
    let data = |file: &str| -> Result<String> { Ok(base64(&fs::read(folder.pki(file))?)) };
    let name = folder.path().file_name().unwrap_or_default().to_string_lossy();
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": name, "cluster": {
            "server": format!("https://{server}"),
            "certificate-authority-data": data("ca.crt")?,
        }}],
        "users": [{ "name": user, "user": {
            "client-certificate-data": data(&format!("{user}.crt"))?,
            "client-key-data": data(&format!("{user}.key"))?,
        }}],
        "contexts": [{ "name": name, "context": { "cluster": name, "user": user } }],
        "current-context": name,
    });
    Ok(serde_yaml_ng::to_string(&config)?)
}

fn base64(bytes: &[u8]) -> String {
    // The type that Kubernetes objects carry bytes in serialises as base64.
    let text = serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec())).unwrap_or_default();
    text.as_str().unwrap_or_default().to_owned()
}
