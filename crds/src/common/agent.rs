//! The sidecar of each member.

use k8s_openapi::api::core::v1::ResourceRequirements;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much the agent writes to its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentLogLevel {
    /// Failures only.
    Error,
    /// Failures and what may lead to one.
    Warn,
    /// One line for each decision.
    #[default]
    Info,
    /// What decisions are made of.
    Debug,
    /// Everything.
    Trace,
}

impl AgentLogLevel {
    /// The word that the agent's `--log-level` takes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// When Pods that were made without an agent get one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgentAdoption {
    /// Whenever a Pod is replaced for another reason.
    #[default]
    OnNextRestart,
    /// Now, one member at a time.
    Rolling,
}

/// The agent, the sidecar of each member. Its image is chosen by the operator alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentSpec {
    /// CPU and memory of the agent. Absent: 20m CPU and 24Mi memory requested, 128Mi memory at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,

    /// How much the agent logs: `error`, `warn`, `info`, `debug` or `trace`.
    #[serde(default)]
    pub log_level: AgentLogLevel,

    /// When members whose Pods have no agent get one: `OnNextRestart`, with the next replacement of the Pod for
    /// another reason, or `Rolling`, now and one member at a time.
    #[serde(default)]
    pub adopt: AgentAdoption,
}
