//! Cases of admission, as `tests/compat/README.md` describes them.

use std::collections::BTreeMap;
use std::fs;

use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use serde::Deserialize;
use serde_json::{Map, Value};
use tests::kube::project;

use crate::cluster::Namespace;

/// A file of cases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cases {
    base: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    kind: String,
    #[serde(default)]
    create: Value,
    update: Option<Value>,
    accept: bool,
    /// Fields of the answer; an absent one counts as empty.
    #[serde(default)]
    then: BTreeMap<String, Value>,
    /// Part of the refusal.
    message: Option<String>,
}

impl Cases {
    /// Reads a file of `tests/compat`.
    pub(crate) fn read(file: &str) -> Self {
        let path = project().join("tests/compat").join(file);
        serde_yaml_ng::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    /// Tries the selected cases and tells of all that go otherwise than they should.
    pub(crate) async fn assert_all(&self, namespace: &Namespace, select: impl Fn(&str) -> bool) {
        let mut tried = 0;
        let mut wrong = Vec::new();
        for case in self.cases.iter().filter(|case| select(&case.name)) {
            tried += 1;
            if let Err(what) = case.check(namespace, &self.base[&case.kind]).await {
                wrong.push(format!("{}: {what}", case.name));
            }
        }
        assert!(tried > 0, "no case is selected");
        assert!(
            wrong.is_empty(),
            "{} of {tried} cases:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
    }
}

impl Case {
    async fn check(&self, namespace: &Namespace, base: &Value) -> Result<(), String> {
        let mut wanted = base.clone();
        merge(&mut wanted, &self.create);
        name(&mut wanted, &self.name);
        let answer = match &self.update {
            None => create(namespace, wanted, true).await,
            Some(change) => update(namespace, wanted, change).await,
        };
        match answer.map_err(|error| error.to_string())? {
            Answer::Refused(message) if self.accept => Err(format!("refused: {message}")),
            Answer::Accepted(_) if !self.accept => Err("accepted".to_owned()),
            Answer::Accepted(object) => self.check_fields(&serde_json::to_value(object).unwrap()),
            Answer::Refused(message) => match &self.message {
                Some(part) if !message.contains(part) => Err(format!("refused without saying {part:?}: {message}")),
                _ => Ok(()),
            },
        }
    }

    fn check_fields(&self, object: &Value) -> Result<(), String> {
        for (path, want) in &self.then {
            let found = path
                .split('.')
                .fold(object, |object, key| object.get(key).unwrap_or(&Value::Null));
            if found != want && !(found.is_null() && want == "") {
                return Err(format!("{path} is {found}, not {want}"));
            }
        }
        Ok(())
    }
}

enum Answer {
    Accepted(Box<DynamicObject>),
    Refused(String),
}

/// Only what the API server says about the object itself is a refusal; all else is a failure of the test.
fn judge(answer: kube::Result<DynamicObject>) -> kube::Result<Answer> {
    match answer {
        Ok(object) => Ok(Answer::Accepted(Box::new(object))),
        Err(kube::Error::Api(status)) if status.is_invalid() => Ok(Answer::Refused(status.message.clone())),
        Err(other) => Err(other),
    }
}

async fn create(namespace: &Namespace, object: Value, dry_run: bool) -> kube::Result<Answer> {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    judge(
        namespace
            .api(&object)
            .create(
                &PostParams {
                    dry_run,
                    ..PostParams::default()
                },
                &object,
            )
            .await,
    )
}

async fn update(namespace: &Namespace, object: Value, change: &Value) -> kube::Result<Answer> {
    let made = match create(namespace, object, false).await? {
        Answer::Accepted(made) => made,
        // Refused at birth already: then it cannot be changed into it either.
        refused @ Answer::Refused(_) => return Ok(refused),
    };
    let mut changed = serde_json::to_value(&made).unwrap();
    merge(&mut changed, change);
    let changed: DynamicObject = serde_json::from_value(changed).unwrap();
    let api = namespace.api(&made);
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let answer = judge(api.replace(&made.name_any(), &dry_run, &changed).await);
    if made.types.as_ref().is_some_and(|types| types.kind != "EtcdMember") {
        api.delete(&made.name_any(), &DeleteParams::default()).await?;
    }
    answer
}

/// Names the object after its case, and keeps an operator that may run from acting on it.
fn name(object: &mut Value, case: &str) {
    let metadata = serde_json::json!({
        "name": format!("case-{case}"),
        "annotations": {crds::annotations::RECONCILE: crds::annotations::RECONCILE_PAUSED},
    });
    let given = object["metadata"].take();
    object["metadata"] = metadata;
    merge(&mut object["metadata"], &given);
}

/// Lays `change` over `base`; a null takes a key away.
fn merge(base: &mut Value, change: &Value) {
    let Some(change) = change.as_object() else { return };
    if !base.is_object() {
        *base = Value::Object(Map::new());
    }
    let Some(base) = base.as_object_mut() else { return };
    for (key, value) in change {
        if value.is_null() {
            base.remove(key);
        } else if value.is_object() {
            merge(base.entry(key.clone()).or_insert(Value::Null), value);
        } else {
            base.insert(key.clone(), value.clone());
        }
    }
}
