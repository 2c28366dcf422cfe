//! The definitions keep what users of the API rely on: `tests/compat/schema`.

#![allow(clippy::unwrap_used, reason = "a test that fails by unwrap says where")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

/// What is compared at each node of a schema, wherever the contract says it.
const KEPT: [&str; 12] = [
    "type",
    "default",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "format",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
];

fn contracts() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/compat/schema");
    let mut contracts = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        contracts.push(serde_yaml_ng::from_str(&fs::read_to_string(entry.unwrap().path()).unwrap()).unwrap());
    }
    contracts
}

fn definitions() -> BTreeMap<String, Value> {
    let definitions = crds::definitions::all().unwrap();
    definitions
        .iter()
        .map(|crd| (crd.spec.names.kind.clone(), serde_json::to_value(&crd.spec).unwrap()))
        .collect()
}

#[test]
fn the_four_kinds_with_users_match_the_contract() {
    let definitions = definitions();
    let contracts = contracts();
    assert_eq!(contracts.len(), 4);
    let mut found = Vec::new();
    for want in &contracts {
        let kind = want["names"]["kind"].as_str().unwrap();
        match definitions.get(kind) {
            Some(have) => compare_definition(kind, want, have, &mut found),
            None => found.push(format!("{kind}: no definition")),
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_changed_contract_is_noticed() {
    let definitions = definitions();
    let mut want = contracts()
        .into_iter()
        .find(|contract| contract["names"]["kind"] == "EtcdCluster")
        .unwrap();
    let spec = &mut want["schema"]["properties"]["spec"];
    spec["properties"]["replicas"]["default"] = 5.into();
    spec["properties"]["gone"]["type"] = "string".into();
    spec["required"] = serde_json::json!(["replicas"]);
    let mut found = Vec::new();
    compare_definition("EtcdCluster", &want, &definitions["EtcdCluster"], &mut found);
    assert_eq!(
        found,
        [
            "EtcdCluster.spec: must be required: replicas",
            "EtcdCluster.spec: may not be required: version",
            "EtcdCluster.spec.gone: missing",
            "EtcdCluster.spec.replicas: default is 3, the contract says 5",
        ]
    );
}

fn compare_definition(kind: &str, want: &Value, have: &Value, found: &mut Vec<String>) {
    for key in ["group", "scope"] {
        if want[key] != have[key] {
            found.push(format!(
                "{kind}: {key} is {}, the contract says {}",
                have[key], want[key]
            ));
        }
    }
    for key in ["kind", "plural", "singular", "listKind"] {
        if want["names"][key]
            != have["names"]
                .get(key)
                .cloned()
                .unwrap_or_else(|| format!("{kind}List").into())
        {
            found.push(format!("{kind}: names.{key} differs"));
        }
    }
    let versions = have["versions"].as_array().unwrap();
    let Some(version) = versions.iter().find(|version| version["name"] == want["version"]) else {
        found.push(format!("{kind}: version {} is missing", want["version"]));
        return;
    };
    for (name, subresource) in want["subresources"].as_object().into_iter().flatten() {
        if version["subresources"].get(name) != Some(subresource) {
            found.push(format!("{kind}: subresource {name} differs"));
        }
    }
    let columns: Vec<_> = version["additionalPrinterColumns"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    for column in want["additionalPrinterColumns"].as_array().into_iter().flatten() {
        if !columns
            .iter()
            .any(|have| have["name"] == column["name"] && have["jsonPath"] == column["jsonPath"])
        {
            found.push(format!("{kind}: column {} is missing or moved", column["name"]));
        }
    }
    compare_node(&want["schema"], &version["schema"]["openAPIV3Schema"], kind, found);
}

fn compare_node(want: &Value, have: &Value, at: &str, found: &mut Vec<String>) {
    if have.is_null() {
        found.push(format!("{at}: missing"));
        return;
    }
    if want.get("$type").is_some() {
        return;
    }
    for key in KEPT {
        let (Some(want), have) = (want.get(key), have.get(key)) else {
            continue;
        };
        if !have.is_some_and(|have| equal(want, have)) {
            let have = have.map_or_else(|| "absent".to_owned(), Value::to_string);
            found.push(format!("{at}: {key} is {have}, the contract says {want}"));
        }
    }
    let (wanted, required) = (words(&want["required"]), words(&have["required"]));
    found.extend(
        wanted
            .difference(&required)
            .map(|name| format!("{at}: must be required: {name}")),
    );
    found.extend(
        required
            .difference(&wanted)
            .map(|name| format!("{at}: may not be required: {name}")),
    );
    for (name, property) in want["properties"].as_object().into_iter().flatten() {
        compare_node(property, &have["properties"][name], &format!("{at}.{name}"), found);
    }
    if let Some(items) = want.get("items") {
        compare_node(items, &have["items"], &format!("{at}[]"), found);
    }
    if let Some(values) = want.get("additionalProperties").filter(|values| values.is_object()) {
        compare_node(values, &have["additionalProperties"], &format!("{at}{{}}"), found);
    }
}

/// Bounds are floating-point numbers in a definition: 1.0 is 1.
fn equal(want: &Value, have: &Value) -> bool {
    match (want.as_f64(), have.as_f64()) {
        (Some(want), Some(have)) => want.total_cmp(&have).is_eq(),
        _ => want == have,
    }
}

fn words(list: &Value) -> BTreeSet<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
