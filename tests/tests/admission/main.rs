//! What a real API server accepts and refuses, by the definitions and the deletion guard alone: no operator is needed.
//!
//! Runs against the cluster that `KUBECONFIG` names, or else against the tests' own local Kubernetes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails by unwrap says where"
)]

mod cases;
mod cluster;
mod guard;

use std::fs;

use kube::api::{Api, DynamicObject, PostParams};
use serde::Deserialize;

use cases::Cases;
use cluster::{Namespace, deploy_file};

#[tokio::test]
async fn the_api_server_accepts_and_refuses_as_users_are_used_to() {
    let namespace = Namespace::create().await;
    Cases::read("admission-cases.yaml")
        .assert_all(&namespace, |_| true)
        .await;
    namespace.delete().await;
}

#[tokio::test]
async fn the_api_server_checks_what_this_operator_adds() {
    let namespace = Namespace::create().await;
    Cases::read("further-cases.yaml")
        .assert_all(&namespace, |name| !name.starts_with("name-"))
        .await;
    namespace.delete().await;
}

#[tokio::test]
async fn m18_a_name_that_no_service_can_have_is_refused_at_admission() {
    let namespace = Namespace::create().await;
    Cases::read("further-cases.yaml")
        .assert_all(&namespace, |name| name.starts_with("name-"))
        .await;
    namespace.delete().await;
}

#[tokio::test]
async fn every_sample_is_accepted() {
    let namespace = Namespace::create().await;
    let mut kinds = Vec::new();
    for entry in fs::read_dir(deploy_file("samples")).unwrap() {
        let path = entry.unwrap().path();
        for document in serde_yaml_ng::Deserializer::from_str(&fs::read_to_string(&path).unwrap()) {
            let object = DynamicObject::deserialize(document).unwrap();
            kinds.push(object.types.as_ref().unwrap().kind.clone());
            let dry_run = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let api: Api<DynamicObject> = namespace.api(&object);
            if let Err(error) = api.create(&dry_run, &object).await {
                panic!("{}: {error}", path.display());
            }
        }
    }
    for crd in crds::definitions::all().unwrap() {
        let kind = crd.spec.names.kind;
        assert!(
            kind == "EtcdMember" || kinds.contains(&kind),
            "deploy/samples has no {kind}"
        );
    }
    namespace.delete().await;
}
