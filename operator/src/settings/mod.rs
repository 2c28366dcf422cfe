//! What flags and environment say. The flags are those of the Go operator of the same API, which this one can be put
//! in place of, and what we add.

mod arguments;
mod cluster_domain;
mod logging;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

pub use arguments::Arguments;
pub use logging::{LogFormat, Logging, TimeFormat};

/// Where a Pod finds the namespace it runs in.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The operator's settings.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Namespace that the operator runs in: its Lease and the Secret of the agents' CA are there.
    pub namespace: String,
    /// Name of this process in Lease and events: the Pod's name.
    pub instance: String,
    /// Only this namespace is watched; `None`: all.
    pub watch_namespace: Option<String>,
    /// Domain of the Kubernetes cluster, such as `cluster.local`.
    pub cluster_domain: String,
    /// Image of the agent.
    pub agent_image: String,
    /// Repository of etcd's image.
    pub etcd_image_repository: String,
    /// Act only while holding the Lease.
    pub leader_elect: bool,
    /// Where metrics are served; `None`: nowhere.
    pub metrics_address: Option<SocketAddr>,
    /// Where `/healthz` and `/readyz` are served; `None`: nowhere.
    pub health_address: Option<SocketAddr>,
}

/// Why the operator does not start.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Nobody says which image the agent has.
    #[error("the agent's image is not known: set OPERATOR_IMAGE to the image of this operator, or --agent-image")]
    NoAgentImage,
    /// Not an address.
    #[error("{flag} {value:?} is no address: write host:port, or :port for all addresses, or 0 for none")]
    Address {
        /// The flag.
        flag: &'static str,
        /// What was given.
        value: String,
    },
}

impl Settings {
    /// The settings, from the command line and from what the process finds around it.
    pub fn new(arguments: &Arguments, default_namespace: &str) -> Result<Self, SettingsError> {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let Arguments {
            metrics_bind_address,
            health_probe_bind_address,
            leader_elect,
            cluster_domain,
            operator_image,
            agent_image,
            etcd_image_repository,
            watch_namespace,
            pod_namespace,
            pod_name,
            zap: _,
        } = arguments;
        let namespace = given(pod_namespace.as_ref())
            .or_else(|| read(NAMESPACE_FILE).map(|name| name.trim().to_owned()))
            .unwrap_or_else(|| default_namespace.to_owned());
        let domain = given(cluster_domain.as_ref())
            .or_else(|| read("/etc/resolv.conf").and_then(|text| cluster_domain::from_resolv_conf(&text)))
            .unwrap_or_else(|| cluster_domain::DEFAULT.to_owned());
        Ok(Self {
            namespace,
            instance: given(pod_name.as_ref()).unwrap_or_else(|| format!("etcd-operator-{}", std::process::id())),
            watch_namespace: given(watch_namespace.as_ref()),
            cluster_domain: domain,
            agent_image: given(agent_image.as_ref())
                .or_else(|| given(operator_image.as_ref()))
                .ok_or(SettingsError::NoAgentImage)?,
            etcd_image_repository: etcd_image_repository.clone(),
            leader_elect: *leader_elect,
            metrics_address: address("--metrics-bind-address", metrics_bind_address)?,
            health_address: address("--health-probe-bind-address", health_probe_bind_address)?,
        })
    }
}

/// An empty value is none, as manifests with empty variables mean it.
fn given(value: Option<&String>) -> Option<String> {
    value.filter(|text| !text.is_empty()).cloned()
}

/// `:8080` is Go's way to say all addresses; `0` says none.
fn address(flag: &'static str, value: &str) -> Result<Option<SocketAddr>, SettingsError> {
    if value.is_empty() || value == "0" {
        return Ok(None);
    }
    let wrong = || SettingsError::Address {
        flag,
        value: value.to_owned(),
    };
    if let Some(port) = value.strip_prefix(':') {
        let port = port.parse().map_err(|_| wrong())?;
        return Ok(Some(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)));
    }
    value
        .replace("localhost:", "127.0.0.1:")
        .parse()
        .map(Some)
        .map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn settings(line: &[&str]) -> Result<Settings, SettingsError> {
        let line = ["etcd-operator"].iter().chain(line).map(|word| (*word).to_owned());
        Settings::new(
            &Arguments::try_parse_from(arguments::as_in_go(line)).unwrap(),
            "default",
        )
    }

    #[test]
    fn operator_image_alone_is_enough() {
        assert_eq!(settings(&["--operator-image=op:1"]).unwrap().agent_image, "op:1");
        let both = settings(&["--operator-image=op:1", "--agent-image=agent:2"]).unwrap();
        assert_eq!(both.agent_image, "agent:2");
        let error = settings(&["--operator-image="]).unwrap_err().to_string();
        assert!(error.contains("OPERATOR_IMAGE"), "{error}");
    }

    #[test]
    fn addresses_are_written_as_in_go() {
        let all = settings(&["--operator-image=o", "--metrics-bind-address=:8080"]).unwrap();
        assert_eq!(all.metrics_address, Some("[::]:8080".parse().unwrap()));
        assert_eq!(all.health_address, Some("[::]:8081".parse().unwrap()));
        let none = settings(&["--operator-image=o", "-health-probe-bind-address", "0"]).unwrap();
        assert_eq!((none.metrics_address, none.health_address), (None, None));
        let local = settings(&["--operator-image=o", "--metrics-bind-address=localhost:1"]).unwrap();
        assert_eq!(local.metrics_address, Some("127.0.0.1:1".parse().unwrap()));
        assert!(settings(&["--operator-image=o", "--metrics-bind-address=nonsense"]).is_err());
    }

    #[test]
    fn an_empty_watch_namespace_means_all_namespaces() {
        assert_eq!(
            settings(&["--operator-image=o", "--watch-namespace="])
                .unwrap()
                .watch_namespace,
            None
        );
        let one = settings(&["--operator-image=o", "--watch-namespace=a"]).unwrap();
        assert_eq!(one.watch_namespace.as_deref(), Some("a"));
    }
}
