//! Conditions of objects.

use anyhow::{Context, Result, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The condition of that type.
pub fn condition<'a>(conditions: &'a [Condition], type_: &str) -> Result<&'a Condition> {
    conditions
        .iter()
        .find(|condition| condition.type_ == type_)
        .with_context(|| format!("there is no condition {type_}: {}", lines(conditions)))
}

/// The condition of that type has that status and one of those reasons, and its message names all of `parts`.
pub fn says(conditions: &[Condition], type_: &str, status: &str, reasons: &[&str], parts: &[&str]) -> Result<()> {
    let found = condition(conditions, type_)?;
    ensure!(
        found.status == status
            && reasons.contains(&found.reason.as_str())
            && parts.iter().all(|part| found.message.contains(part)),
        "{type_} should be {status} with {reasons:?} and name {parts:?}: {}",
        lines(conditions)
    );
    Ok(())
}

/// Conditions for a person, one in a line.
pub(super) fn lines(conditions: &[Condition]) -> String {
    let lines = conditions
        .iter()
        .map(|c| format!("\n  {}={} {} \"{}\"", c.type_, c.status, c.reason, c.message));
    lines.collect::<Vec<_>>().concat()
}
