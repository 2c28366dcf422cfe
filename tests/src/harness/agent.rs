//! The agents' read-only HTTP, through the API server's proxy.

use anyhow::{Context, Result};
use kube::Client;

/// The agent of one Pod.
#[derive(Clone)]
pub struct AgentHttp {
    client: Client,
    base: String,
}

impl AgentHttp {
    /// The agent in that Pod.
    #[must_use]
    pub fn new(client: Client, namespace: &str, pod: &str) -> Self {
        Self {
            client,
            base: format!("/api/v1/namespaces/{namespace}/pods/{pod}:2382/proxy"),
        }
    }

    /// The body of one of its paths, such as `/metrics`.
    pub async fn get(&self, path: &str) -> Result<String> {
        let request = http::Request::get(format!("{}{path}", self.base)).body(Vec::new())?;
        self.client
            .request_text(request)
            .await
            .with_context(|| format!("the agent's {path}"))
    }
}
