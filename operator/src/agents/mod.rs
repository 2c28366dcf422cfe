//! Links to agents.

/// A handle on all links.
#[derive(Clone, Debug)]
pub struct Links {}
