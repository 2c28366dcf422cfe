//! The API reference as a page of Markdown, made from the schemas.

use std::error::Error;
use std::fmt::{self, Write};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// Fields that hold a type of Kubernetes itself; its own reference says what is in them.
const EMBEDDED: [(&str, &str); 5] = [
    ("affinity", "Affinity"),
    ("resources", "ResourceRequirements"),
    ("topologySpreadConstraints", "[]TopologySpreadConstraint"),
    ("tolerations", "[]Toleration"),
    ("conditions", "[]Condition"),
];

const INTRODUCTION: &str = "\
<!-- Generated from the types in crds/ by `cargo run -p crds --example generate`. Do not edit. -->

# API reference

All kinds are namespaced and belong to `etcd-operator.cozystack.io/v1alpha2`. Types written like `Affinity` are
Kubernetes' own and as its [reference](https://kubernetes.io/docs/reference/kubernetes-api/) says. **Bold** fields are
required. Rules are checked by the API server itself when an object is created or changed.
";

const NAMES: &str = "\
## Names

A cluster's name is a DNS label that starts with a letter and has 56 characters at most, so that every name made of it
is a valid one: the Services `<cluster>` and `<cluster>-client`, members and Pods `<cluster>-xxxxx`, volumes
`data-<cluster>-xxxxx`. The API server refuses other names when a cluster is created; a cluster that exists already
stays editable.

A name that ends in `-client` is allowed. Where it makes two clusters want one Service (clusters `a` and `a-client`
both want the Service `a-client`), the one that has it keeps it: the operator never takes over an object that another
cluster owns, and the other cluster's condition says which object is in the way.
";

/// The whole page.
pub(crate) fn render(crds: &[CustomResourceDefinition]) -> Result<String, Box<dyn Error>> {
    let mut page = String::from(INTRODUCTION);
    page.push('\n');
    for crd in crds {
        let kind = &crd.spec.names.kind;
        writeln!(page, "- [{kind}](#{})", kind.to_lowercase())?;
    }
    write!(page, "\n{NAMES}")?;
    for crd in crds {
        render_kind(&mut page, crd)?;
    }
    Ok(page)
}

fn render_kind(page: &mut String, crd: &CustomResourceDefinition) -> Result<(), Box<dyn Error>> {
    let names = &crd.spec.names;
    let version = crd.spec.versions.first().ok_or("a definition without a version")?;
    let schema = version
        .schema
        .as_ref()
        .and_then(|schema| schema.open_api_v3_schema.as_ref());
    let schema = schema.ok_or("a definition without a schema")?;
    writeln!(page, "\n## {}\n", names.kind)?;
    writeln!(page, "{}\n", schema.description.as_deref().unwrap_or_default())?;
    write!(page, "`kubectl get {}`", names.plural)?;
    for short in names.short_names.iter().flatten() {
        write!(page, " or `kubectl get {short}`")?;
    }
    let columns: Vec<_> = version
        .additional_printer_columns
        .iter()
        .flatten()
        .map(|column| column.name.as_str())
        .collect();
    writeln!(page, " shows: {}.", columns.join(", "))?;
    for part in ["spec", "status"] {
        let Some(fields) = schema.properties.as_ref().and_then(|properties| properties.get(part)) else {
            continue;
        };
        writeln!(page, "\n### {} {part}\n", names.kind)?;
        writeln!(page, "{}\n", fields.description.as_deref().unwrap_or_default())?;
        writeln!(page, "| field | type | default | |\n|---|---|---|---|")?;
        render_fields(page, "", fields)?;
    }
    let mut rules = Vec::new();
    collect_rules("", schema, &mut rules);
    if !rules.is_empty() {
        writeln!(page, "\n### {} rules\n", names.kind)?;
        for rule in rules {
            writeln!(page, "- {rule}")?;
        }
    }
    Ok(())
}

fn render_fields(page: &mut String, prefix: &str, schema: &JSONSchemaProps) -> fmt::Result {
    let required = schema.required.as_deref().unwrap_or_default();
    for (name, field) in schema.properties.iter().flatten() {
        let path = format!("{prefix}{name}");
        let shown = if required.contains(name) {
            format!("**`{path}`**")
        } else {
            format!("`{path}`")
        };
        let embedded = EMBEDDED
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, type_name)| (*type_name).to_owned());
        let type_name = embedded.clone().unwrap_or_else(|| type_of(field));
        let default = field
            .default
            .as_ref()
            .map(|value| format!("`{}`", value.0))
            .unwrap_or_default();
        writeln!(
            page,
            "| {shown} | {} | {} | {} |",
            cell(&type_name),
            cell(&default),
            cell(&describe(field))
        )?;
        if embedded.is_none() {
            render_fields(page, &format!("{path}."), field)?;
            if let Some(JSONSchemaPropsOrArray::Schema(items)) = &field.items {
                render_fields(page, &format!("{path}[]."), items)?;
            }
        }
    }
    Ok(())
}

fn type_of(field: &JSONSchemaProps) -> String {
    if field.x_kubernetes_int_or_string == Some(true) {
        return "Quantity".to_owned();
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &field.items {
        return format!("[]{}", type_of(items));
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &field.additional_properties {
        return format!("map of {}", type_of(values));
    }
    match field.format.as_deref() {
        Some("date-time") => "time".to_owned(),
        Some(format @ ("int32" | "int64")) => format.to_owned(),
        _ => field.type_.clone().unwrap_or_default(),
    }
}

/// The description, and then what the schema itself asks of a value.
fn describe(field: &JSONSchemaProps) -> String {
    let mut parts: Vec<String> = field.description.iter().cloned().collect();
    match (field.minimum, field.maximum) {
        (Some(low), Some(high)) => parts.push(format!("From {low} to {high}.")),
        (Some(low), None) => parts.push(format!("At least {low}.")),
        (None, Some(high)) => parts.push(format!("At most {high}.")),
        (None, None) => {}
    }
    if let Some(words) = &field.enum_ {
        let words: Vec<_> = words.iter().map(|word| format!("`{}`", word.0)).collect();
        parts.push(format!("One of {}.", words.join(", ")));
    }
    if let Some(pattern) = field
        .pattern
        .as_ref()
        .filter(|_| field.x_kubernetes_int_or_string != Some(true))
    {
        parts.push(format!("Pattern `{pattern}`."));
    }
    parts.join(" ")
}

fn collect_rules(path: &str, schema: &JSONSchemaProps, rules: &mut Vec<String>) {
    for rule in schema.x_kubernetes_validations.iter().flatten() {
        let message = rule.message.as_deref().unwrap_or(&rule.rule);
        rules.push(if path.is_empty() {
            message.to_owned()
        } else {
            format!("`{path}`: {message}")
        });
    }
    for (name, field) in schema.properties.iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        collect_rules(&path, field, rules);
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &field.items {
            collect_rules(&format!("{path}[]"), items, rules);
        }
    }
}

/// Text that stays within one cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}
