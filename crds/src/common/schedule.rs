//! What the policies that run by a schedule share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens when a run is due while the one before is still under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConcurrencyPolicy {
    /// The new run is left out.
    #[default]
    Forbid,
    /// Both run.
    Allow,
}

/// Five fields of cron; digits, names, `*`, lists, ranges and steps. The operator checks the values themselves and
/// says what is wrong in a condition.
pub(crate) const CRON_PATTERN: &str = r"^\s*[^\s]+(\s+[^\s]+){4}\s*$";
