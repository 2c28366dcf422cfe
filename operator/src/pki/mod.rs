//! The certificates of the agent links.

/// The CA of the agent links, as this process holds it.
#[derive(Debug)]
pub struct Authority {}
