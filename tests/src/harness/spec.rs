//! Specs of the clusters that scenarios make: small requests, so that several fit on one machine.

use serde_json::{Value, json};

/// The version that scenarios run when they say nothing else.
pub const VERSION: &str = "3.6.16";

/// Members on disks. etcd allocates two log segments of 64 MB ahead.
#[must_use]
pub fn disk(replicas: u32) -> Value {
    json!({
        "replicas": replicas,
        "version": VERSION,
        "storage": { "size": "320Mi" },
        "resources": requests(),
    })
}

/// Members in memory.
#[must_use]
pub fn memory(replicas: u32) -> Value {
    json!({
        "replicas": replicas,
        "version": VERSION,
        "storage": { "size": "320Mi", "medium": "Memory" },
        "resources": requests(),
    })
}

/// `base` with the fields of `changes` (a JSON merge patch, RFC 7386).
#[must_use]
pub fn with(mut base: Value, changes: &Value) -> Value {
    merge(&mut base, changes);
    base
}

fn requests() -> Value {
    json!({ "requests": { "cpu": "10m", "memory": "32Mi" } })
}

fn merge(base: &mut Value, changes: &Value) {
    let Value::Object(changes) = changes else {
        *base = changes.clone();
        return;
    };
    if !base.is_object() {
        *base = json!({});
    }
    let Value::Object(fields) = base else { return };
    for (key, change) in changes {
        if change.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_go_into_the_depth_and_null_takes_away() {
        let base = json!({ "a": { "b": 1, "c": 2 }, "d": 3 });
        let changed = with(base, &json!({ "a": { "b": 9 }, "d": null, "e": { "f": 1 } }));
        assert_eq!(changed, json!({ "a": { "b": 9, "c": 2 }, "e": { "f": 1 } }));
    }
}
