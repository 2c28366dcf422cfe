//! An `EtcdMember`, made from its cluster.

use crds::{EtcdCluster, EtcdMember, EtcdMemberSpec, annotations, etcdcluster::ObservedCluster, names::ClusterName};
use kube::ResourceExt;

use super::metadata::{cluster_labels, metadata, owner};

/// What a new member of a cluster is made from.
#[derive(Clone, Copy, Debug)]
pub struct MemberTarget<'a> {
    /// The cluster, which owns it.
    pub cluster: &'a EtcdCluster,
    /// Its checked name.
    pub name: &'a ClusterName,
    /// The target being worked on.
    pub observed: &'a ObservedCluster,
    /// The token of the incarnation.
    pub token: &'a str,
    /// It is made to be the first member.
    pub bootstrap: bool,
    /// Members known by now, as `name=peerURL`.
    pub initial_cluster: &'a str,
}

/// A new member. The API server completes its name.
#[must_use]
pub fn member(target: &MemberTarget<'_>) -> EtcdMember {
    let MemberTarget {
        cluster,
        name,
        observed,
        token,
        bootstrap,
        initial_cluster,
    } = *target;
    let ObservedCluster {
        replicas: _,
        version,
        storage,
        resources,
        affinity,
        topology_spread_constraints,
        additional_metadata,
        options,
        image_pull_secrets,
        agent,
        scheduling,
    } = observed.clone();
    let own = [(annotations::HEADLESS_SERVICE_NAME.to_owned(), name.headless_service())].into();
    let mut meta = metadata(
        String::new(),
        cluster.namespace(),
        cluster_labels(name.as_str()),
        own,
        additional_metadata.as_ref(),
        owner(cluster),
    );
    meta.name = None;
    meta.generate_name = Some(name.member_prefix());
    meta.finalizers = Some(vec![annotations::MEMBER_FINALIZER.into()]);
    EtcdMember {
        metadata: meta,
        spec: EtcdMemberSpec {
            cluster_name: name.to_string(),
            version,
            storage,
            resources,
            additional_metadata,
            affinity,
            topology_spread_constraints,
            options,
            image_pull_secrets,
            bootstrap,
            initial_cluster: initial_cluster.to_owned(),
            cluster_token: token.to_owned(),
            replicas: 1,
            dormant: false,
            // A cluster with TLS or a restore is not let through to here yet.
            tls: None,
            restore: None,
            agent,
            scheduling,
        },
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn a_new_member() {
        let (cluster, name) = fixtures::cluster();
        let observed = ObservedCluster::from(&cluster.spec);
        let target = MemberTarget {
            cluster: &cluster,
            name: &name,
            observed: &observed,
            token: "ns-demo-uid-cluster",
            bootstrap: true,
            initial_cluster: "",
        };
        insta::assert_yaml_snapshot!(member(&target));
    }
}
