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
        (Value::Array(wanted), Value::Array(live)) => {
            wanted.len() == live.len() && wanted.iter().zip(live).all(|(wanted, live)| value_is_in(wanted, live))
        }
        (wanted, live) => wanted == live,
    }
}

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
}
