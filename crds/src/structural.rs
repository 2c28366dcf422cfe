//! Turns a derived schema into the one that users of the API have always had.
//!
//! The derive writes JSON Schema for Rust's types; Kubernetes' conventions differ in a few places, each handled here
//! once: an absent field is never `null`, a quantity has a pattern, and a selector is one value for server-side apply.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use serde_json::{Map, Value, json};

/// What `resource.Quantity` accepts, as Kubernetes' own generator writes it.
const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Properties of core types that are one value each: a part of one means nothing without the rest.
const ATOMIC_OBJECTS: [&[&str]; 3] = [
    &["matchExpressions", "matchLabels"],
    &["matchExpressions", "matchFields"],
    &["nodeSelectorTerms"],
];

/// A derived schema that does not have the shape of one; a bug in the types.
#[derive(Debug, thiserror::Error)]
#[error("the schema of {kind} cannot be written as a structural schema: {source}")]
pub struct SchemaError {
    kind: String,
    source: serde_json::Error,
}

/// Finishes every version of `crd`.
pub(crate) fn finish(mut crd: CustomResourceDefinition) -> Result<CustomResourceDefinition, SchemaError> {
    for version in &mut crd.spec.versions {
        if let Some(schema) = version
            .schema
            .as_mut()
            .and_then(|validation| validation.open_api_v3_schema.as_mut())
        {
            let finished = finish_schema(schema);
            *schema = finished.map_err(|source| SchemaError {
                kind: crd.spec.names.kind.clone(),
                source,
            })?;
        }
    }
    Ok(crd)
}

fn finish_schema(schema: &JSONSchemaProps) -> Result<JSONSchemaProps, serde_json::Error> {
    let mut value = serde_json::to_value(schema)?;
    if let Some(root) = value.as_object_mut() {
        // The contract leaves `spec` optional; a rule on the whole object asks for it with a clear message.
        root.remove("required");
        root.remove("title");
        if let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("apiVersion".into(), json!({"type": "string"}));
            properties.insert("kind".into(), json!({"type": "string"}));
            properties.insert("metadata".into(), json!({"type": "object"}));
        }
    }
    finish_node(&mut value);
    serde_json::from_value(value)
}

fn finish_node(node: &mut Value) {
    let Some(node) = node.as_object_mut() else { return };
    // The API server drops a null where the schema has no `nullable`, and then fills in the default.
    node.remove("nullable");
    finish_description(node);
    finish_quantity(node);
    finish_atomic(node);
    for key in ["properties", "patternProperties"] {
        if let Some(children) = node.get_mut(key).and_then(Value::as_object_mut) {
            children.values_mut().for_each(finish_node);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = node.get_mut(key) {
            finish_node(child);
        }
    }
}

/// Lines of the source become paragraphs: `kubectl explain` wraps by itself.
fn finish_description(node: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = node.get_mut("description") {
        let paragraphs: Vec<_> = text
            .split("\n\n")
            .map(|paragraph| paragraph.replace('\n', " "))
            .collect();
        *text = paragraphs.join("\n\n");
    }
}

/// Every int-or-string of this API is a quantity.
fn finish_quantity(node: &mut Map<String, Value>) {
    if node.get("x-kubernetes-int-or-string") != Some(&Value::Bool(true)) {
        return;
    }
    node.remove("type");
    node.insert("anyOf".into(), json!([{"type": "integer"}, {"type": "string"}]));
    node.insert("pattern".into(), QUANTITY_PATTERN.into());
    // The description of the type itself is a page on its grammar, repeated at every resource.
    if node
        .get("description")
        .and_then(Value::as_str)
        .is_some_and(|text| text.starts_with("Quantity is a"))
    {
        node.remove("description");
    }
}

fn finish_atomic(node: &mut Map<String, Value>) {
    let Some(properties) = node.get("properties").and_then(Value::as_object) else {
        return;
    };
    let is_atomic = ATOMIC_OBJECTS
        .iter()
        .any(|names| properties.len() == names.len() && names.iter().all(|name| properties.contains_key(*name)));
    if is_atomic {
        node.insert("x-kubernetes-map-type".into(), "atomic".into());
    }
}
