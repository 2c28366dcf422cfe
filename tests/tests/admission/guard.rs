//! The deletion guard: who may delete an `EtcdMember`.

use crds::{EtcdMember, EtcdMemberSpec, annotations};
use k8s_openapi::api::core::v1::Namespace as CoreNamespace;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::cluster::{Namespace, PATIENCE};

/// A person with all rights.
const PERSON: &str = "somebody";

struct Guarded {
    namespace: Namespace,
    member: String,
}

impl Guarded {
    /// A member, and a guard that is known to be at work.
    async fn member() -> Self {
        let namespace = Namespace::create().await;
        let spec = EtcdMemberSpec {
            cluster_name: "guarded".into(),
            version: "3.6.16".into(),
            cluster_token: "token".into(),
            ..EtcdMemberSpec::default()
        };
        let mut member = EtcdMember::new("guarded-abcde", spec);
        // Nothing deletes it while the test looks.
        member.metadata.finalizers = Some(vec!["example.com/held-by-a-test".into()]);
        let api: Api<EtcdMember> = Api::namespaced(namespace.client.clone(), &namespace.name);
        let member = api.create(&PostParams::default(), &member).await.unwrap().name_any();
        let guarded = Self { namespace, member };
        // A policy is compiled some time after it is made.
        let at_work = async {
            while guarded.delete_as(PERSON, &[]).await.is_ok() {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(PATIENCE, at_work).await.unwrap();
        guarded
    }

    /// What a deletion by that user would give.
    async fn delete_as(&self, user: &str, groups: &[&str]) -> kube::Result<()> {
        let mut config = self.namespace.config.clone();
        config.auth_info.impersonate = Some(user.to_owned());
        let groups = groups
            .iter()
            .chain(&["system:masters"])
            .map(|group| (*group).to_owned());
        config.auth_info.impersonate_groups = Some(groups.collect());
        let api: Api<EtcdMember> = Api::namespaced(Client::try_from(config)?, &self.namespace.name);
        api.delete(
            &self.member,
            &DeleteParams {
                dry_run: true,
                ..DeleteParams::default()
            },
        )
        .await
        .map(drop)
    }

    async fn patch(&self, patch: serde_json::Value) {
        let api: Api<EtcdMember> = Api::namespaced(self.namespace.client.clone(), &self.namespace.name);
        api.patch(&self.member, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    async fn done(self) {
        self.patch(json!({"metadata": {"finalizers": null}})).await;
        self.namespace.delete().await;
    }
}

#[tokio::test]
async fn a_person_cannot_delete_a_member_and_is_told_what_to_do() {
    let guarded = Guarded::member().await;
    let kube::Error::Api(status) = guarded.delete_as(PERSON, &[]).await.unwrap_err() else {
        panic!("the API server did not answer")
    };
    assert!(status.is_forbidden(), "{status:?}");
    for part in [
        "guarded-abcde",
        "EtcdCluster guarded",
        "spec.replicas",
        annotations::REPLACE,
        annotations::ALLOW_DELETION,
    ] {
        assert!(status.message.contains(part), "{part} is not in: {}", status.message);
    }
    guarded.done().await;
}

#[tokio::test]
async fn the_operator_and_the_controllers_of_kubernetes_may_delete_members() {
    let guarded = Guarded::member().await;
    for controller in ["generic-garbage-collector", "namespace-controller"] {
        let user = format!("system:serviceaccount:kube-system:{controller}");
        guarded
            .delete_as(&user, &["system:serviceaccounts:kube-system"])
            .await
            .unwrap();
    }
    guarded.delete_as("system:kube-controller-manager", &[]).await.unwrap();
    let operator = "system:serviceaccount:etcd-operator-system:etcd-operator";
    guarded
        .delete_as(operator, &["system:serviceaccounts:etcd-operator-system"])
        .await
        .unwrap();
    // Neither the operator's name in another namespace, nor another name in the operator's.
    for other in [
        "system:serviceaccount:default:etcd-operator",
        "system:serviceaccount:etcd-operator-system:default",
    ] {
        assert!(
            guarded.delete_as(other, &[]).await.is_err(),
            "{other} may delete members"
        );
    }
    guarded.done().await;
}

#[tokio::test]
async fn the_annotation_lets_a_person_delete_a_member() {
    let guarded = Guarded::member().await;
    guarded
        .patch(json!({"metadata": {"annotations": {annotations::ALLOW_DELETION: "yes"}}}))
        .await;
    assert!(
        guarded.delete_as(PERSON, &[]).await.is_err(),
        "only the word true opens the guard"
    );
    guarded
        .patch(json!({"metadata": {"annotations": {annotations::ALLOW_DELETION: "true"}}}))
        .await;
    guarded.delete_as(PERSON, &[]).await.unwrap();
    guarded.done().await;
}

#[tokio::test]
async fn u17_anybody_may_delete_members_of_a_terminating_namespace() {
    let guarded = Guarded::member().await;
    guarded.namespace.delete().await;
    let namespaces: Api<CoreNamespace> = Api::all(guarded.namespace.client.clone());
    let namespace = namespaces.get(&guarded.namespace.name).await.unwrap();
    assert_eq!(
        namespace.status.and_then(|status| status.phase).as_deref(),
        Some("Terminating")
    );
    // The guard sees namespaces through a cache.
    let open = async {
        while guarded.delete_as(PERSON, &[]).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, open).await.unwrap();
    guarded.patch(json!({"metadata": {"finalizers": null}})).await;
}
