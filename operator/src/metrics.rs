//! The operator's metrics.

/// All metric families, registered once.
#[derive(Debug, Default)]
pub struct Metrics {}
