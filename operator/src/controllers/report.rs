//! Writes what is to be reported, and only where it differs.

use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{
    api::FIELD_MANAGER,
    error::{PassError, is_conflict, is_not_found},
};
use crate::leader::Validity;

/// Fields of a cluster's status that steps write, with an optimistic lock, before they are acted on.
pub(super) const CLUSTER_RECORDS: &[&str] = &["clusterToken", "incarnation", "seed", "clusterID", "observed"];

/// The same of a recovery's status.
pub(super) const RECOVERY_RECORDS: &[&str] = &["member", "incarnation"];

/// The same of a member's status.
pub(super) const MEMBER_RECORDS: &[&str] = &["binding", "directive"];

/// A merge patch that turns `old` into `new`, records left out. `None`: there is nothing to write.
fn difference<S: Serialize>(old: &S, new: &S, records: &[&str]) -> Option<Value> {
    let (Ok(Value::Object(old)), Ok(Value::Object(new))) = (serde_json::to_value(old), serde_json::to_value(new))
    else {
        return None;
    };
    let mut patch = Map::new();
    for (key, value) in &new {
        if old.get(key) != Some(value) {
            // A merge patch merges objects: what is to be gone from one must be said.
            let removed = removals(old.get(key), value);
            patch.insert(key.clone(), removed);
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch.retain(|key, _| !records.contains(&key.as_str()));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// `new`, with nulls for what `old` has and `new` has not.
#[must_use]
pub(super) fn replacing(old: &Value, new: &Value) -> Value {
    removals(Some(old), new)
}

fn removals(old: Option<&Value>, new: &Value) -> Value {
    match (old, new) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            let mut all: Map<String, Value> = new
                .iter()
                .map(|(key, value)| (key.clone(), removals(old.get(key), value)))
                .collect();
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                all.insert(key.clone(), Value::Null);
            }
            Value::Object(all)
        }
        (Some(_) | None, new) => new.clone(),
    }
}

/// Writes a status where it differs; the answer is the object after it.
pub(super) async fn write<K, S>(
    lease: &Validity,
    api: &Api<K>,
    name: &str,
    uid: &str,
    old: &S,
    new: &S,
    records: &[&str],
) -> Result<Option<K>, PassError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    S: Serialize,
{
    const ACT: &str = "writing the status";
    let Some(status) = difference(old, new, records) else {
        return Ok(None);
    };
    let patch = Patch::Merge(json!({"metadata": {"uid": uid}, "status": status}));
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    match super::api::write(lease, ACT, api.patch_status(name, &params, &patch)).await {
        Ok(object) => Ok(Some(object)),
        // Gone, or another object of that name: nothing is left to be told.
        Err(PassError::Kube { source, .. }) if is_not_found(&source) || is_conflict(&source) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_when_nothing_differs() {
        let status = json!({"a": 1, "b": {"c": 2}});
        assert_eq!(difference(&status, &status, &[]), None);
    }

    #[test]
    fn records_are_never_written_by_a_report() {
        let old = json!({"summary": "a", "clusterToken": "t"});
        let new = json!({"summary": "b"});
        assert_eq!(difference(&old, &new, CLUSTER_RECORDS), Some(json!({"summary": "b"})));
    }

    #[test]
    fn what_is_gone_from_within_an_object_is_said() {
        let old = json!({"exit": {"code": 1, "class": "x"}, "gone": 1});
        let new = json!({"exit": {"code": 2}});
        assert_eq!(
            difference(&old, &new, &[]),
            Some(json!({"exit": {"code": 2, "class": null}, "gone": null}))
        );
    }
}
