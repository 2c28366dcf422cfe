//! The cluster under test, with the definitions and the guard installed, and a namespace to try things in.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace as CoreNamespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ObjectMeta, Patch, PatchParams, PostParams,
};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Config, ResourceExt};
use serde::Deserialize;
use tests::kube::{self as local, Lifetime, LocalKube};

/// Long enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A file of the manifests.
pub(crate) fn deploy_file(name: &str) -> PathBuf {
    local::project().join("deploy").join(name)
}

/// How to reach the cluster, with all rights.
pub(crate) async fn config() -> Config {
    if env::var_os("KUBECONFIG").is_some() {
        return Config::infer().await.unwrap();
    }
    let cluster = local::Config {
        lifetime: Lifetime::UntilDown,
        ..local::Config::new("test")
    };
    let kubeconfig = LocalKube::up(cluster).await.unwrap().kubeconfig();
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
        .await
        .unwrap()
}

/// A namespace of its own for one test.
pub(crate) struct Namespace {
    pub(crate) config: Config,
    pub(crate) client: Client,
    pub(crate) name: String,
}

impl Namespace {
    /// Installs the definitions and the guard, and makes a namespace.
    pub(crate) async fn create() -> Self {
        let config = config().await;
        let client = Client::try_from(config.clone()).unwrap();
        for crd in crds::definitions::all().unwrap() {
            let api: Api<CustomResourceDefinition> = Api::all(client.clone());
            let name = crd.name_any();
            api.patch(&name, &PatchParams::apply("tests").force(), &Patch::Apply(&crd))
                .await
                .unwrap();
            let established = await_condition(api, &name, conditions::is_crd_established());
            tokio::time::timeout(PATIENCE, established).await.unwrap().unwrap();
        }
        for document in serde_yaml_ng::Deserializer::from_str(&fs::read_to_string(deploy_file("guard.yaml")).unwrap()) {
            let object = DynamicObject::deserialize(document).unwrap();
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource_of(&object));
            let force = PatchParams::apply("tests").force();
            api.patch(&object.name_any(), &force, &Patch::Apply(&object))
                .await
                .unwrap();
        }
        let wanted = CoreNamespace {
            metadata: ObjectMeta {
                generate_name: Some("admission-".into()),
                ..ObjectMeta::default()
            },
            ..CoreNamespace::default()
        };
        let made = Api::<CoreNamespace>::all(client.clone())
            .create(&PostParams::default(), &wanted)
            .await
            .unwrap();
        Self {
            config,
            client,
            name: made.name_any(),
        }
    }

    /// Access to objects of the kind of `object` in this namespace.
    pub(crate) fn api(&self, object: &DynamicObject) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.name, &resource_of(object))
    }

    /// Starts the deletion of the namespace.
    pub(crate) async fn delete(&self) {
        let namespaces: Api<CoreNamespace> = Api::all(self.client.clone());
        namespaces.delete(&self.name, &DeleteParams::default()).await.unwrap();
    }
}

fn resource_of(object: &DynamicObject) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap())
}
