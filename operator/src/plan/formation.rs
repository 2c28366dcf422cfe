//! From nothing to a cluster of one voter: who may start it, recorded before it is told so.

use super::{
    deletion,
    facts::{Binding, Id, Member, Seed, ServiceState},
    growth, node_loss, orders,
    report::{DirectoryState, ProcessState, Report},
    step::{Order, Plan, Step, WaitReason},
    target,
    view::View,
};

pub(super) fn form(view: &View, plan: &mut Plan) {
    deletion::release_forgotten(view, plan);
    if view.facts.services.headless == ServiceState::Foreign {
        // Members' names would lead to somebody else's Pods.
        return;
    }
    growth::create_members(view, plan);
    drop_surplus(view, plan);
    node_loss::replace_unformed(view, plan);
    match &view.facts.cluster.record.seed {
        None => choose_seed(view, plan),
        Some(seed) => start_seed(view, seed, plan),
    }
}

/// The target was lowered before anything was formed: whoever is not the seed may go at once.
fn drop_surplus(view: &View, plan: &mut Plan) {
    let seed = view.facts.cluster.record.seed.as_ref().map(|seed| seed.member.as_str());
    let mut staying: Vec<_> = view.staying().collect();
    staying.sort_by_key(|member| seed != Some(member.fact.name.as_str()));
    for member in staying.into_iter().skip(view.target()) {
        plan.step(Step::DeleteMember {
            member: member.fact.name.clone(),
            uid: member.fact.uid.clone(),
        });
    }
}

/// The first member whose agent has an empty directory and an etcd that waits for its order.
fn choose_seed(view: &View, plan: &mut Plan) {
    let candidate = view.staying().find_map(|member| {
        let report = member.fact.link.live()?;
        can_start_fresh(report).then(|| (member.fact, report.directory.nonce.clone()))
    });
    match candidate {
        Some((member, nonce)) => {
            let seed = Seed {
                member: member.name.clone(),
                nonce,
            };
            let mut steps = vec![Step::RecordSeed { seed: seed.clone() }];
            steps.extend(
                order(view, &seed, member)
                    .map(|order| seed_steps(member, &seed, order))
                    .unwrap_or_default(),
            );
            plan.chain(steps);
        }
        None => plan.wait(
            WaitReason::PodStarting,
            None,
            "no member is ready to be the first one yet",
        ),
    }
}

fn can_start_fresh(report: &Report) -> bool {
    report.directory.state == DirectoryState::Unborn
        && !report.directory.nonce.is_empty()
        && !report.directory.started
        && report.process.state == ProcessState::Held
}

fn another_is_ready(view: &View, name: &str) -> bool {
    view.staying()
        .any(|member| member.fact.name != name && member.fact.link.live().is_some_and(can_start_fresh))
}

fn seed_steps(member: &Member, seed: &Seed, order: Order) -> Vec<Step> {
    let mut steps = Vec::new();
    if !member.bootstrap {
        steps.push(Step::MarkBootstrap {
            member: member.name.clone(),
        });
    }
    if let Order::Seed { member_id, .. } = &order {
        let binding = Binding {
            id: *member_id,
            nonce: seed.nonce.clone(),
        };
        steps.extend(orders::send(member, Some(binding), order));
    }
    steps
}

fn order(view: &View, _seed: &Seed, member: &Member) -> Option<Order> {
    let record = &view.facts.cluster.record;
    let token = record.token.clone()?;
    let (member_id, cluster_id) = new_ids(&member.peer_url, &token);
    Some(Order::Seed {
        token,
        incarnation: record.incarnation,
        member_id,
        cluster_id,
        options: view.facts.cluster.spec.options.clone(),
    })
}

/// The IDs that etcd will compute for the first member of a new cluster.
fn new_ids(peer_url: &str, token: &str) -> (Id, Id) {
    let member = etcd::member_id(&[peer_url], token);
    (Id(member.0), Id(etcd::cluster_id(&[member]).0))
}

fn start_seed(view: &View, seed: &Seed, plan: &mut Plan) {
    let Some(member) = view.staying().find(|member| member.fact.name == seed.member) else {
        return start_over(view, plan);
    };
    let name = member.fact.name.as_str();
    let Some(report) = member.fact.link.live() else {
        plan.wait(
            WaitReason::PodStarting,
            Some(name),
            format!("{name} is to start the cluster; its agent is not heard"),
        );
        return;
    };
    let Some(order) = order(view, seed, member.fact) else {
        return;
    };
    let Order::Seed {
        member_id, cluster_id, ..
    } = &order
    else {
        return;
    };
    match report.directory.state {
        DirectoryState::Unborn if report.directory.nonce.is_empty() || report.directory.started => {
            // The agent is about to give a directory whose data are gone a new nonce.
            plan.wait(
                WaitReason::DataDirectory,
                Some(name),
                format!("the directory of {name} is being looked at"),
            );
        }
        DirectoryState::Unborn if report.directory.nonce != seed.nonce => start_over(view, plan),
        DirectoryState::Unborn => {
            if orders::start_is_due(view.facts, member.fact, &order, plan) {
                plan.chain(seed_steps(member.fact, seed, order));
            } else {
                plan.wait(
                    WaitReason::EtcdStarting,
                    Some(name),
                    format!("{name} is starting the cluster"),
                );
            }
        }
        DirectoryState::Intact | DirectoryState::TornTail | DirectoryState::InUse | DirectoryState::Unspecified => {
            match &report.etcd {
                Some(etcd) if etcd.member_id == *member_id && etcd.cluster_id == *cluster_id => {
                    plan.step(Step::RecordClusterId { id: *cluster_id });
                }
                Some(etcd) if etcd.cluster_id.0 != 0 => plan.wait(
                    WaitReason::DataDirectory,
                    Some(name),
                    format!(
                        "{name} runs cluster {} as {}, not {cluster_id} as {member_id}",
                        etcd.cluster_id, etcd.member_id
                    ),
                ),
                Some(_) | None => {
                    plan.wait(
                        WaitReason::EtcdStarting,
                        Some(name),
                        format!("etcd of {name} is starting the cluster"),
                    );
                }
            }
        }
        // It was lost before any client was led to it, and another one is ready. What it has goes aside first: under the
        // next incarnation it would be of an older history, which only a person may touch.
        DirectoryState::Damaged if another_is_ready(view, name) => set_aside(view, member.fact, report, plan),
        DirectoryState::Damaged | DirectoryState::Foreign | DirectoryState::Unreadable => plan.wait(
            WaitReason::DataDirectory,
            Some(name),
            format!(
                "the directory of {name} is {}: {}",
                report.directory.state.as_str(),
                report.directory.detail
            ),
        ),
    }
}

/// With a new nonce it is no longer the seed that was recorded.
fn set_aside(view: &View, member: &Member, report: &Report, plan: &mut Plan) {
    let name = member.name.as_str();
    plan.wait(
        WaitReason::DataDirectory,
        Some(name),
        format!(
            "{name} was to start the cluster, and its directory is damaged: it is set aside, and another one starts"
        ),
    );
    let Some(identity) = &report.directory.identity else {
        return start_over(view, plan);
    };
    let order = Order::Quarantine {
        incarnation: view.facts.cluster.record.incarnation,
        removed: identity.member_id,
    };
    if orders::not_just_sent(view.facts, member, &order, plan) {
        plan.chain(orders::send(member, None, order));
    }
}

/// The seed is lost before its cluster ID was recorded: no client was ever led to it, so another history may begin,
/// under another token.
fn start_over(view: &View, plan: &mut Plan) {
    let cluster = &view.facts.cluster;
    let incarnation = cluster.record.incarnation.max(1) + 1;
    plan.step(Step::NewIncarnation {
        token: target::token(&cluster.namespace, &cluster.name, &cluster.uid, incarnation),
        incarnation,
    });
}
