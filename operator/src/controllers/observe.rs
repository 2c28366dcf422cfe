//! Gathers the facts about one cluster: from the mirrors, from the links, and from etcd itself.

use std::{collections::BTreeSet, sync::Arc};

use crds::{EtcdCluster, EtcdMember, EtcdRecovery, annotations, etcdrecovery::RecoveryPhase};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::Service,
    apimachinery::pkg::{
        apis::meta::v1::{ObjectMeta, OwnerReference},
        util::intstr::IntOrString,
    },
};
use kube::ResourceExt;

use super::{
    World,
    cache::Cache,
    compare, links,
    memory::Memory,
    mirror::{ClusterKey, Item},
    place,
    remote::can_tell,
};
use crate::{
    plan::{
        facts::{
            Binding, Budget, Claim, Cluster, ClusterRecord, Fact, Facts, Id, Link, Member, MemberRecord, PodFact,
            Recovery, RecoverySource, Seed, Seen, ServiceState, Services, Version,
        },
        rollout::{Permit, Rollout, release},
        volumes::Volume,
    },
    resources::{self, Ownership},
    validate,
};

/// Owner of an object that our watches do not see.
const SOMEBODY: &str = "somebody else";
/// Objects deleted within this time were deleted together. (The API server rounds the time of a deletion down to seconds.)
const TOGETHER: SignedDuration = SignedDuration::from_secs(2);

/// The objects that a pass works on, as they were when it began.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    /// The cluster.
    pub cluster: Arc<EtcdCluster>,
    /// Its own members.
    pub members: Vec<Item<EtcdMember>>,
}

impl Objects {
    /// The member objects that this very cluster object owns; those of a former one of the same name are not ours.
    #[must_use]
    pub(super) fn read(cache: &Cache, key: &ClusterKey, cluster: Arc<EtcdCluster>) -> Self {
        let uid = cluster.uid().unwrap_or_default();
        let members = cache
            .members
            .of(key)
            .into_iter()
            .filter(|member| resources::ownership(&member.value.metadata, &uid) == Ownership::Ours)
            .collect();
        Self { cluster, members }
    }
}

/// Facts from the mirrors, the links and the memory of this process: nothing is asked of anybody.
pub(super) fn local(world: &World, key: &ClusterKey, objects: &Objects, memory: &Memory, now: Timestamp) -> Facts {
    let cluster = &objects.cluster;
    let members: Vec<Member> = objects
        .members
        .iter()
        .map(|member| member_facts(world, key, cluster, member, memory, now))
        .collect();
    let mut cluster_facts = cluster_facts(cluster);
    if let Some(target) = cluster.status.as_ref().and_then(|status| status.observed.as_ref()) {
        let drifted: BTreeSet<String> = objects
            .members
            .iter()
            .flat_map(|member| validate::drift(&member.value.spec, target))
            .collect();
        cluster_facts.spec.unsupported.extend(drifted);
    }
    Facts {
        now,
        cluster: cluster_facts,
        list: Fact::Unknown {
            why: "it was not read".into(),
        },
        services: services(&world.cache, key, cluster, memory, now),
        budget: budget(&world.cache, key, cluster, memory, now),
        nudged: memory.nudged.clone(),
        unproven_since: memory.unproven_since,
        refusal: memory.refusal.clone(),
        unanswered: memory.unanswered.clone(),
        leader: None,
        retained: retained(&world.cache, key),
        rollout: rollout(world, key, &members, now),
        hashes: memory.hashes.clone(),
        growth_refused: memory.growth_refused.clone(),
        missing_verbs: world.operator.rbac.missing().iter().map(ToString::to_string).collect(),
        failed: memory.failing.words(),
        members,
        recoveries: recoveries(&world.cache, key),
        seen: memory.seen,
    }
}

/// The fleet is looked at only where there is something to roll out.
fn rollout(world: &World, key: &ClusterKey, members: &[Member], now: Timestamp) -> Rollout {
    let image = &world.operator.settings.agent_image;
    let own = |member: &Member| member.pod.ours().and_then(|pod| pod.agent_image.clone());
    let behind = members.iter().filter_map(own).any(|own| own != *image);
    Rollout {
        agent_image: image.clone(),
        permit: if behind {
            world.rollouts.permit(&world.cache, key, image, now)
        } else {
            Permit::Granted
        },
        version: Version::parse(release(env!("CARGO_PKG_VERSION"))),
    }
}

/// The leader's commit index: what it had acknowledged by then is not beyond it. A follower's says less.
pub(super) fn seen(facts: &Facts) -> Option<Seen> {
    let commit = |member: &Member| match &member.link {
        Link::Up { report, at } => {
            let etcd = report.etcd.as_ref().filter(|_| can_tell(facts, report))?;
            (etcd.leader == Some(etcd.member_id)).then_some(Seen {
                commit: etcd.commit,
                at: *at,
            })
        }
        Link::Down { .. } | Link::None => None,
    };
    facts
        .members
        .iter()
        .filter_map(commit)
        .max_by_key(|seen| (seen.commit, seen.at))
}

/// The recoveries of a cluster, the oldest first.
fn recoveries(cache: &Cache, key: &ClusterKey) -> Vec<Recovery> {
    let mut all = cache.recoveries.of(key);
    all.sort_by_key(|item| {
        let created = item.value.creation_timestamp().map(|time| time.0);
        (created, item.name.clone())
    });
    all.iter().map(|item| recovery(&item.value)).collect()
}

fn recovery(object: &EtcdRecovery) -> Recovery {
    let status = object.status.clone().unwrap_or_default();
    let source = match (&object.spec.from_member, &object.spec.from_snapshot) {
        (Some(member), _) => match (&member.name, &member.claim_name) {
            (Some(name), _) => RecoverySource::Member(name.clone()),
            (None, Some(claim)) => RecoverySource::Unsupported(format!("from the retained claim {claim}")),
            (None, None) => RecoverySource::Best,
        },
        (None, _) => RecoverySource::Unsupported("from a snapshot".into()),
    };
    Recovery {
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        source,
        assume_gone: object.spec.assume_gone.clone(),
        accept_data_loss: object.spec.accept_data_loss,
        ended: matches!(status.phase, Some(RecoveryPhase::Complete | RecoveryPhase::Failed)),
        member: status.member,
        incarnation: status.incarnation.and_then(|number| u64::try_from(number).ok()),
    }
}

fn retained(cache: &Cache, key: &ClusterKey) -> Vec<String> {
    let claims = cache.claims.of(key).into_iter();
    claims
        .filter(|claim| claim.value.retained)
        .map(|claim| claim.name)
        .collect()
}

fn cluster_facts(cluster: &EtcdCluster) -> Cluster {
    let name = cluster.name_any();
    let namespace = cluster.namespace().unwrap_or_default();
    Cluster {
        peer_suffix: resources::peer_url("", &name, &namespace)
            .trim_start_matches("http://")
            .to_owned(),
        uid: cluster.uid().unwrap_or_default(),
        generation: cluster.metadata.generation.unwrap_or(0),
        ending: cluster.metadata.deletion_timestamp.is_some(),
        hands_off: cluster
            .annotations()
            .get(annotations::RECONCILE)
            .is_some_and(|value| value == annotations::RECONCILE_PAUSED),
        spec: validate::spec(cluster),
        record: cluster_record(cluster),
        name,
        namespace,
    }
}

fn cluster_record(cluster: &EtcdCluster) -> ClusterRecord {
    let Some(status) = &cluster.status else {
        return ClusterRecord::default();
    };
    ClusterRecord {
        token: status.cluster_token.clone(),
        incarnation: status
            .incarnation
            .and_then(|incarnation| u64::try_from(incarnation).ok())
            .unwrap_or(0),
        cluster_id: status.cluster_id.as_deref().and_then(Id::parse),
        seed: status.seed.as_ref().map(|seed| Seed {
            member: seed.member.clone(),
            nonce: seed.nonce.clone(),
        }),
        replicas: status
            .observed
            .as_ref()
            .map(|observed| u32::try_from(observed.replicas).unwrap_or(0)),
        version: status
            .observed
            .as_ref()
            .and_then(|observed| Version::parse(&observed.version)),
        deadline: status.progress_deadline.as_ref().map(|time| time.0),
    }
}

fn member_facts(
    world: &World,
    key: &ClusterKey,
    cluster: &EtcdCluster,
    item: &Item<EtcdMember>,
    memory: &Memory,
    now: Timestamp,
) -> Member {
    let member = &item.value;
    let pod = pod_fact(&world.cache, key, item, memory, now);
    let link = links::fact(world, key, cluster, item, &pod);
    let ca = world.operator.ca.bundle().fingerprint();
    let identity_ready = memory.has_identity(&item.uid, &ca, link.live().is_some(), now);
    let resolvable = pod.ours().and_then(|pod| pod.ip.as_deref()).is_some_and(|ip| {
        world.cache.names.of(key).iter().any(|slice| {
            slice
                .value
                .hosts
                .get(&item.name)
                .is_some_and(|addresses| addresses.contains(ip))
        })
    });
    Member {
        name: item.name.clone(),
        uid: item.uid.clone(),
        created: member.creation_timestamp().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        deleting: member.metadata.deletion_timestamp.is_some(),
        deleted_just_now: member
            .metadata
            .deletion_timestamp
            .as_ref()
            .is_some_and(|deleted| now.duration_since(deleted.0) < TOGETHER),
        finalizer: member
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == annotations::MEMBER_FINALIZER),
        dormant: member.spec.dormant,
        bootstrap: member.spec.bootstrap,
        version: Version::parse(&member.spec.version),
        peer_url: resources::peer_url(&item.name, resources::headless_service_of(member), &key.namespace),
        identity_ready,
        claim: claim_fact(&world.cache, key, item, memory, now),
        volume: Volume {
            claim: world
                .cache
                .claims
                .get(key, &crds::names::member_claim(&item.name))
                .map_or(0, |claim| claim.bytes),
            spec: validate::bytes(&member.spec.storage.size),
        },
        pod,
        place: place::fact(&world.cache, key, item, now),
        link,
        resolvable,
        record: member_record(member),
        sent: memory.sent.get(&item.uid).cloned(),
    }
}

fn member_record(member: &EtcdMember) -> MemberRecord {
    let Some(status) = &member.status else {
        return MemberRecord::default();
    };
    MemberRecord {
        binding: status.binding.as_ref().and_then(|binding| {
            Some(Binding {
                id: Id::parse(&binding.member_id)?,
                nonce: binding.nonce.clone(),
            })
        }),
        directive: u64::try_from(status.directive).unwrap_or(0),
        member_id: status.member_id.as_deref().and_then(Id::parse),
        heard: status.data_directory.is_some(),
        voter: status.is_voter,
        pod_uid: status.pod_uid.clone(),
    }
}

fn owned_by(owners: &[OwnerReference], uid: &str) -> Ownership {
    let meta = ObjectMeta {
        owner_references: Some(owners.to_vec()),
        ..ObjectMeta::default()
    };
    resources::ownership(&meta, uid)
}

fn pod_fact(cache: &Cache, key: &ClusterKey, member: &Item<EtcdMember>, memory: &Memory, now: Timestamp) -> PodFact {
    let Some(info) = cache.pods.get(key, &member.name) else {
        if memory.is_taken("Pod", &member.name, now) {
            return PodFact::Foreign { owner: SOMEBODY.into() };
        }
        return PodFact::Absent;
    };
    match owned_by(&info.owners, &member.uid) {
        Ownership::Ours => PodFact::Ours(info.pod.clone()),
        foreign @ Ownership::Foreign { .. } => PodFact::Foreign {
            owner: foreign.to_string(),
        },
    }
}

fn claim_fact(cache: &Cache, key: &ClusterKey, member: &Item<EtcdMember>, memory: &Memory, now: Timestamp) -> Claim {
    let name = crds::names::member_claim(&member.name);
    let Some(info) = cache.claims.get(key, &name) else {
        if memory.is_taken("PersistentVolumeClaim", &name, now) {
            return Claim::Foreign { owner: SOMEBODY.into() };
        }
        return Claim::Absent;
    };
    match owned_by(&info.owners, &member.uid) {
        Ownership::Ours if info.deleting => Claim::Ending,
        Ownership::Ours => Claim::Ours,
        foreign @ Ownership::Foreign { .. } => Claim::Foreign {
            owner: foreign.to_string(),
        },
    }
}

fn services(cache: &Cache, key: &ClusterKey, cluster: &EtcdCluster, memory: &Memory, now: Timestamp) -> Services {
    let Ok(name) = crds::names::ClusterName::new(key.name.clone()) else {
        // The name is refused before anything is made.
        return Services {
            headless: ServiceState::Current,
            client: ServiceState::Current,
        };
    };
    let state = |wanted: Service| {
        let name = wanted.metadata.name.as_deref().unwrap_or_default();
        let Some(live) = cache.services.get(key, name) else {
            return if memory.is_taken("Service", name, now) {
                ServiceState::Foreign
            } else {
                ServiceState::Stale
            };
        };
        match resources::ownership(&live.metadata, &cluster.uid().unwrap_or_default()) {
            Ownership::Foreign { .. } => ServiceState::Foreign,
            Ownership::Ours if is_as_wanted(&wanted, &*live, &live.metadata) => ServiceState::Current,
            Ownership::Ours => ServiceState::Stale,
        }
    };
    Services {
        headless: state(resources::headless_service(cluster, &name)),
        client: state(resources::client_service(cluster, &name)),
    }
}

/// All that we want is there, and nothing that we wanted once and do not want now.
fn is_as_wanted<K: serde::Serialize>(wanted: &K, live: &K, metadata: &ObjectMeta) -> bool {
    let managed = metadata.managed_fields.as_deref().unwrap_or_default();
    compare::is_in(wanted, live) && !compare::owns_more(wanted, managed)
}

fn budget(cache: &Cache, key: &ClusterKey, cluster: &EtcdCluster, memory: &Memory, now: Timestamp) -> Budget {
    let Some(live) = cache.budgets.get(key, &key.name) else {
        let taken = memory.is_taken("PodDisruptionBudget", &key.name, now);
        return if taken { Budget::Foreign } else { Budget::Absent };
    };
    if resources::ownership(&live.metadata, &cluster.uid().unwrap_or_default()) != Ownership::Ours {
        return Budget::Foreign;
    }
    let min_available = live.spec.as_ref().and_then(|spec| match spec.min_available {
        Some(IntOrString::Int(number)) => u32::try_from(number).ok(),
        Some(IntOrString::String(_)) | None => None,
    });
    let current = crds::names::ClusterName::new(key.name.clone()).is_ok_and(|name| {
        // The number is compared by the planner, which alone knows the voters.
        let wanted = resources::pod_disruption_budget(cluster, &name, 1, 1).map(|mut wanted| {
            if let Some(spec) = &mut wanted.spec {
                spec.min_available = None;
            }
            wanted
        });
        // Its number is ours, too, and is left out here.
        let with_number = resources::pod_disruption_budget(cluster, &name, 1, 1);
        let managed = live.metadata.managed_fields.as_deref().unwrap_or_default();
        let surplus = with_number.is_some_and(|wanted| compare::owns_more(&wanted, managed));
        wanted.is_some_and(|wanted| compare::is_in(&wanted, &*live)) && !surplus
    });
    Budget::Ours { min_available, current }
}
