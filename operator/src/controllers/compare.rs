//! Is an object as it should be? Only what we want is compared: defaults that the API server adds do not count.

use serde::Serialize;
use serde_json::Value;

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
