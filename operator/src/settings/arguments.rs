//! The command line.

use clap::{ArgAction, Args, Parser};

use super::logging::{Encoder, TimeFormat};

/// An operator for etcd clusters on Kubernetes.
#[derive(Clone, Debug, Parser)]
#[command(name = "etcd-operator", version)]
pub struct Arguments {
    /// Address of the metrics, such as `:8080`; `0`: none.
    #[arg(long, default_value = "0")]
    pub(super) metrics_bind_address: String,

    /// Address of `/healthz` and `/readyz`; `0`: none.
    #[arg(long, default_value = ":8081")]
    pub(super) health_probe_bind_address: String,

    /// Act only while holding the leader Lease. Needed with more than one replica.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(super) leader_elect: bool,

    /// Domain of the Kubernetes cluster. Default: from /etc/resolv.conf, else `cluster.local`.
    #[arg(long)]
    pub(super) cluster_domain: Option<String>,

    /// Image of this operator.
    #[arg(long, env = "OPERATOR_IMAGE")]
    pub(super) operator_image: Option<String>,

    /// Image of the agent. Default: the operator's, which carries the agent too.
    #[arg(long, env = "AGENT_IMAGE")]
    pub(super) agent_image: Option<String>,

    /// Repository of etcd's image; the tag is `v<version>`.
    #[arg(long, env = "ETCD_IMAGE_REPOSITORY", default_value = "quay.io/coreos/etcd")]
    pub(super) etcd_image_repository: String,

    /// Look after this namespace only. Default: all.
    #[arg(long, env = "WATCH_NAMESPACE")]
    pub(super) watch_namespace: Option<String>,

    /// Namespace of the operator. Default: from the service account.
    #[arg(long, env = "POD_NAMESPACE", hide = true)]
    pub(super) pod_namespace: Option<String>,

    /// Name of the operator's Pod.
    #[arg(long, env = "POD_NAME", hide = true)]
    pub(super) pod_name: Option<String>,

    #[command(flatten)]
    pub(super) zap: Zap,
}

/// The flags that controller-runtime gives to every Go operator, mapped to our logging.
#[derive(Clone, Debug, Args)]
#[allow(clippy::struct_field_names, reason = "they are the names of the flags")]
pub(super) struct Zap {
    /// `debug`, `info`, `error`, `panic`, or a number: the higher, the more.
    #[arg(long)]
    pub(super) zap_log_level: Option<String>,

    /// Text and level `debug`, where `--zap-encoder` and `--zap-log-level` do not say otherwise.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(super) zap_devel: bool,

    /// `json` or `console`.
    #[arg(long, value_enum)]
    pub(super) zap_encoder: Option<Encoder>,

    /// Taken for compatibility, and without effect, which is said at the start: errors carry their causes here, there are
    /// no stack traces to choose a level for.
    #[arg(long, value_parser = ["info", "error", "panic"])]
    pub(super) zap_stacktrace_level: Option<String>,

    /// How a line says when it was written.
    #[arg(long, value_enum, default_value = "rfc3339")]
    pub(super) zap_time_encoding: TimeFormat,
}

impl Arguments {
    /// The arguments of this process; ends it when they are wrong.
    #[must_use]
    pub fn of_process() -> Self {
        Self::parse_from(as_in_go(std::env::args()))
    }

    /// What was asked for and has no effect.
    #[must_use]
    pub fn without_effect(&self) -> Vec<&'static str> {
        let stacktrace = self.zap.zap_stacktrace_level.is_some();
        stacktrace.then_some("--zap-stacktrace-level").into_iter().collect()
    }

    /// How to log.
    #[must_use]
    pub fn logging(&self) -> super::Logging {
        super::Logging::from_zap(&self.zap)
    }
}

/// Go takes one dash for two.
pub(super) fn as_in_go(line: impl Iterator<Item = String>) -> Vec<String> {
    let double = |word: String| {
        let single = word
            .strip_prefix('-')
            .filter(|rest| rest.len() > 1 && !rest.starts_with('-'));
        match single {
            Some(rest) => format!("--{rest}"),
            None => word,
        }
    };
    line.map(double).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(as_in_go(["manager"].iter().chain(line).map(|word| (*word).to_owned())))
    }

    #[test]
    fn the_go_operators_command_line_is_taken_as_it_is() {
        let arguments = parse(&[
            "--metrics-bind-address=:8080",
            "--health-probe-bind-address=:8081",
            "--leader-elect",
            "--cluster-domain=example.org",
            "-operator-image=a",
            "--etcd-image-repository",
            "registry/etcd",
            "--watch-namespace=ns",
            "-zap-devel",
            "--zap-log-level=5",
            "--zap-encoder=console",
            "--zap-stacktrace-level=error",
            "--zap-time-encoding=iso8601",
        ])
        .unwrap();
        assert!(arguments.leader_elect && arguments.zap.zap_devel);
        assert_eq!(arguments.etcd_image_repository, "registry/etcd");
        assert_eq!(arguments.operator_image.as_deref(), Some("a"));
        assert_eq!(arguments.without_effect(), ["--zap-stacktrace-level"]);
    }

    #[test]
    fn a_switch_can_be_turned_off_by_its_value() {
        assert!(!parse(&["--leader-elect=false"]).unwrap().leader_elect);
        assert!(!parse(&[]).unwrap().leader_elect);
    }

    #[test]
    fn what_is_no_flag_of_ours_is_refused() {
        assert!(parse(&["--no-such-flag"]).is_err());
        assert!(parse(&["--zap-encoder=xml"]).is_err());
    }
}
