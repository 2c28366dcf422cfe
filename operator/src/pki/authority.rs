//! The CA's Secret, and what this process holds of it.

use std::{
    future::Future,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::PostParams};
use rustls::ClientConfig;
use tokio::{sync::watch, time::timeout};

use super::{Bundle, CA_SECRET, PkiError, client_config};

/// Longest wait for one answer of the API server.
const ANSWER: Duration = Duration::from_secs(5);

/// The CA of the agent links, as this process holds it. [`Authority::refresh`] keeps it equal to its Secret.
#[derive(Debug)]
pub struct Authority {
    held: RwLock<Held>,
    changed: watch::Sender<String>,
}

#[derive(Clone, Debug)]
struct Held {
    bundle: Arc<Bundle>,
    client: Arc<ClientConfig>,
    renew_at: Timestamp,
}

impl Held {
    fn new(bundle: Bundle, now: Timestamp) -> Result<Self, PkiError> {
        let (client, renew_at) = client_config(&bundle, now)?;
        Ok(Self {
            bundle: Arc::new(bundle),
            client,
            renew_at,
        })
    }
}

impl Authority {
    /// An authority over a bundle that is not kept anywhere (simulations), or has just been read.
    pub fn new(bundle: Bundle, now: Timestamp) -> Result<Self, PkiError> {
        let (changed, _) = watch::channel(bundle.fingerprint());
        Ok(Self {
            held: RwLock::new(Held::new(bundle, now)?),
            changed,
        })
    }

    /// Reads the CA's Secret, or makes it. Two replicas may do so at once: the first to create wins.
    pub async fn load(client: &Client, namespace: &str, now: Timestamp) -> Result<Self, PkiError> {
        Self::new(read_or_create(client, namespace, now, None).await?, now)
    }

    /// The CAs in use.
    #[must_use]
    pub fn bundle(&self) -> Arc<Bundle> {
        Arc::clone(&self.held().bundle)
    }

    /// TLS for dialling an agent.
    #[must_use]
    pub fn client_config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.held().client)
    }

    /// Wakes when the CAs have changed: every agent's certificate is then to be issued anew.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<String> {
        self.changed.subscribe()
    }

    /// Takes over what the Secret holds now, puts it back when it is gone, replaces a CA that has become old, and
    /// makes a new client certificate when that is due. Only the leader calls this.
    pub async fn refresh(&self, client: &Client, namespace: &str, now: Timestamp) -> Result<(), PkiError> {
        let held = self.held();
        let mut bundle = read_or_create(client, namespace, now, Some(&held.bundle)).await?;
        if let Some(next) = bundle.successor(now)? {
            bundle = replace(client, namespace, next).await?;
        }
        if bundle.fingerprint() != held.bundle.fingerprint() || now >= held.renew_at {
            let fingerprint = bundle.fingerprint();
            let next = Held::new(bundle, now)?;
            *self.held.write().unwrap_or_else(PoisonError::into_inner) = next;
            self.changed.send_if_modified(|known| {
                let other = *known != fingerprint;
                *known = fingerprint;
                other
            });
        }
        Ok(())
    }

    fn held(&self) -> Held {
        self.held.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn read_or_create(
    client: &Client,
    namespace: &str,
    now: Timestamp,
    held: Option<&Bundle>,
) -> Result<Bundle, PkiError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    if let Some(found) = call(namespace, "read", secrets.get_opt(CA_SECRET)).await? {
        return Bundle::from_secret(&found);
    }
    let data = match held {
        Some(bundle) => bundle.to_data(),
        None => Bundle::generate(now)?.to_data(),
    };
    let (params, first) = (PostParams::default(), secret(namespace, data, None));
    match call(namespace, "created", secrets.create(&params, &first)).await {
        Ok(created) => Bundle::from_secret(&created),
        // The other replica was faster: its CA is the one.
        Err(PkiError::Kube { source, .. }) if is_taken(&source) => {
            Bundle::from_secret(&call(namespace, "read", secrets.get(CA_SECRET)).await?)
        }
        Err(error) => Err(error),
    }
}

/// Replaced only when nobody else has touched it since it was read.
async fn replace(client: &Client, namespace: &str, next: Bundle) -> Result<Bundle, PkiError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = call(namespace, "read", secrets.get(CA_SECRET)).await?;
    let next = secret(namespace, next.to_data(), found.metadata.resource_version);
    let params = PostParams::default();
    let written = call(namespace, "replaced", secrets.replace(CA_SECRET, &params, &next)).await?;
    Bundle::from_secret(&written)
}

/// One call, bounded in time: the client itself waits for ever on a connection that has died silently.
async fn call<T>(
    namespace: &str,
    act: &'static str,
    answer: impl Future<Output = kube::Result<T>>,
) -> Result<T, PkiError> {
    let namespace = namespace.to_owned();
    match timeout(ANSWER, answer).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(PkiError::Kube {
            namespace,
            act,
            source: Box::new(source),
        }),
        Err(_) => Err(PkiError::KubeSilent { namespace, act }),
    }
}

fn is_taken(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

fn secret(
    namespace: &str,
    data: std::collections::BTreeMap<String, k8s_openapi::ByteString>,
    resource_version: Option<String>,
) -> Secret {
    let labels = [
        (crds::labels::NAME, "etcd-operator"),
        (crds::labels::MANAGED_BY, crds::labels::MANAGED_BY_VALUE),
    ];
    Secret {
        metadata: ObjectMeta {
            name: Some(CA_SECRET.into()),
            namespace: Some(namespace.into()),
            labels: Some(
                labels
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .collect(),
            ),
            resource_version,
            ..ObjectMeta::default()
        },
        data: Some(data),
        type_: Some("kubernetes.io/tls".into()),
        ..Secret::default()
    }
}

#[cfg(test)]
#[path = "authority_tests.rs"]
mod tests;
