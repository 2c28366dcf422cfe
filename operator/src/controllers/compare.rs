//! Is an object as it should be? Only what we want is compared: defaults that the API server adds do not count.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde::Serialize;
use serde_json::Value;

use super::api::FIELD_MANAGER;

/// Everything in `wanted` is in `live`.
#[must_use]
pub(super) fn is_in<W: Serialize, L: Serialize>(wanted: &W, live: &L) -> bool {
    match (serde_json::to_value(wanted), serde_json::to_value(live)) {
        (Ok(wanted), Ok(live)) => value_is_in(&wanted, &live),
        _ => false,
    }
}

fn value_is_in(wanted: &Value, live: &Value) -> bool {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => wanted
            .iter()
            .all(|(key, wanted)| value_is_in(wanted, live.get(key).unwrap_or(&Value::Null))),
        (Value::Array(wanted), Value::Array(live)) => list_is_in(wanted, live),
        (wanted, live) => wanted == live,
    }
}

/// Something that we have applied to `live` before (server-side apply keeps account of it) is not in `wanted` any more: to be
/// applied anew, so that it goes. `managed` are the live object's `managedFields`.
#[must_use]
pub(super) fn owns_more<W: Serialize>(wanted: &W, managed: &[ManagedFieldsEntry]) -> bool {
    let Ok(wanted) = serde_json::to_value(wanted) else {
        return false;
    };
    managed
        .iter()
        .filter(|entry| is_ours(entry))
        .filter_map(|entry| entry.fields_v1.as_ref())
        .any(|fields| goes_beyond(&wanted, &fields.0))
}

/// An account of what this operator has applied.
#[must_use]
pub(super) fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(FIELD_MANAGER)
        && entry.operation.as_deref() == Some("Apply")
        && entry.subresource.as_deref().is_none_or(str::is_empty)
}

/// Fields of objects only (`f:name`): entries of lists (`k:`, `v:`) are compared by [`is_in`].
fn goes_beyond(wanted: &Value, fields: &Value) -> bool {
    let Value::Object(fields) = fields else { return false };
    fields.iter().any(|(key, inner)| {
        let Some(name) = key.strip_prefix("f:") else {
            return false;
        };
        match wanted.get(name) {
            None | Some(Value::Null) => true,
            Some(Value::Object(_)) => goes_beyond(&wanted[name], inner),
            Some(_) => false,
        }
    })
}

/// Lists that others may add to are matched by the key under which server-side apply merges them; what is added is not
/// ours to take away, so it must not count. All other lists are of one owner, and in order.
fn list_is_in(wanted: &[Value], live: &[Value]) -> bool {
    let key = KEYS.iter().find(|key| {
        wanted
            .iter()
            .all(|item| key.iter().all(|field| item.get(field).is_some()))
    });
    match key.filter(|_| !wanted.is_empty()) {
        Some(key) => wanted.iter().all(|wanted| {
            live.iter()
                .find(|live| key.iter().all(|field| live.get(field) == wanted.get(field)))
                .is_some_and(|live| value_is_in(wanted, live))
        }),
        None => wanted.len() == live.len() && wanted.iter().zip(live).all(|(wanted, live)| value_is_in(wanted, live)),
    }
}

/// Keys of such lists in what we make: owner references, and ports of Services.
const KEYS: &[&[&str]] = &[&["uid"], &["port"]];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_applied_and_is_wanted_no_more_is_found() {
        let entry = |manager: &str, operation: &str, fields: Value| -> ManagedFieldsEntry {
            serde_json::from_value(json!({"manager": manager, "operation": operation, "fieldsV1": fields})).unwrap()
        };
        let fields = json!({"f:metadata": {"f:labels": {"f:a": {}, "f:team": {}}}, "f:spec": {"f:ports": {"k:{\"port\":1}": {}}}});
        let ours = [entry(FIELD_MANAGER, "Apply", fields.clone())];
        let with = json!({"metadata": {"labels": {"a": "1", "team": "x"}}, "spec": {"ports": [{"port": 1}]}});
        let without = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"ports": [{"port": 1}]}});
        assert!(!owns_more(&with, &ours));
        assert!(owns_more(&without, &ours));
        let of_others = [
            entry("kubectl", "Apply", fields.clone()),
            entry(FIELD_MANAGER, "Update", fields),
        ];
        assert!(!owns_more(&without, &of_others));
    }

    #[test]
    fn u20_what_others_add_does_not_count_and_what_they_change_does() {
        let wanted = json!({"spec": {"ports": [{"port": 2379}], "selector": {"a": "b"}}});
        let live = json!({"spec": {"ports": [{"port": 2379, "protocol": "TCP"}], "selector": {"a": "b"}, "x": 1}});
        assert!(is_in(&wanted, &live));
        assert!(!is_in(&json!({"spec": {"ports": [{"port": 2380}]}}), &live));
        assert!(!is_in(&json!({"spec": {"ports": []}}), &live));
        assert!(!is_in(&json!({"spec": {"y": true}}), &live));
    }

    #[test]
    fn u20_an_entry_that_somebody_adds_to_a_list_does_not_count() {
        let wanted = json!({"ports": [{"port": 2379, "name": "client"}], "owners": [{"uid": "1"}]});
        let more =
            json!({"ports": [{"port": 80}, {"port": 2379, "name": "client"}], "owners": [{"uid": "1"}, {"uid": "2"}]});
        assert!(is_in(&wanted, &more));
        let changed = json!({"ports": [{"port": 2379, "name": "other"}], "owners": [{"uid": "1"}]});
        assert!(!is_in(&wanted, &changed));
        assert!(!is_in(&json!({"names": ["a"]}), &json!({"names": ["a", "b"]})));
    }
}
