//! Which verbs the operator needs, and which of them are missing (scenario U24).

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Verb {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Plural, with a sub-resource after a slash.
    pub resource: &'static str,
    /// `get`, `list`, ...
    pub verb: &'static str,
}

/// What the self-check found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Verbs that are not granted.
    pub missing: Vec<Verb>,
}
