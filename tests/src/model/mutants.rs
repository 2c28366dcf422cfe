//! Planners with a known defect each. A search that does not catch them proves nothing.

use std::sync::Arc;

use operator::plan::{
    self,
    facts::{Binding, Fact, Facts, Id, Link, MemberList},
    report::{DirectoryState, ProcessState},
    step::{Order, Peer, Plan, Step},
};

use super::{
    planners::Planner,
    search::{Fault, Profile, Search},
};

/// A planner whose facts are doctored before, or whose plan is edited after.
pub struct Mutant {
    /// What is wrong with it.
    pub name: &'static str,
    /// What a search must find: the beginning of the property's name.
    pub breaks: &'static str,
    /// Where it is searched.
    pub profile: Profile,
    doctor: fn(&mut Facts, Option<&MemberList>),
    edit: fn(&Facts, &mut Plan),
    remembers: bool,
    /// It does not hear anybody anew before a change of membership.
    trusts_old_reports: bool,
    /// With agents that carry an order out again.
    agents_replay: bool,
}

struct Defect {
    doctor: fn(&mut Facts, Option<&MemberList>),
    edit: fn(&Facts, &mut Plan),
    remembers: bool,
    confirms: bool,
}

impl Planner for Defect {
    fn plan(&self, facts: &Facts, last: Option<&MemberList>) -> Plan {
        let mut facts = facts.clone();
        (self.doctor)(&mut facts, last);
        let mut plan = plan::plan(&facts);
        (self.edit)(&facts, &mut plan);
        plan
    }

    fn remembers(&self) -> bool {
        self.remembers
    }

    fn confirms(&self) -> bool {
        self.confirms
    }
}

impl Mutant {
    /// The search that must catch it.
    #[must_use]
    pub fn search(&self) -> Search {
        let planner = Defect {
            doctor: self.doctor,
            edit: self.edit,
            remembers: self.remembers,
            confirms: !self.trusts_old_reports,
        };
        let mut search = Search::new(self.profile, Arc::new(planner));
        if self.breaks != "9" {
            search = search.without_liveness();
        }
        if self.agents_replay {
            search.with_replaying_agents()
        } else {
            search
        }
    }
}

const THREE: Profile = Profile {
    name: "three members",
    version: "3.6.16",
    medium: operator::plan::facts::Medium::Disk,
    size: 3,
    formed: true,
    sizes: &[],
    edits: 0,
    kinds: &[],
    faults: 0,
};

/// Three members, with faults of those kinds.
const fn three(kinds: &'static [Fault], faults: u8) -> Profile {
    Profile { kinds, faults, ..THREE }
}

/// Three members that are edited to another size.
const fn edited(sizes: &'static [u32], kinds: &'static [Fault], faults: u8) -> Profile {
    Profile {
        sizes,
        edits: 1,
        kinds,
        faults,
        ..THREE
    }
}

const fn mutant(name: &'static str, breaks: &'static str, profile: Profile) -> Mutant {
    Mutant {
        name,
        breaks,
        profile,
        doctor: |_, _| {},
        edit: |_, _| {},
        remembers: false,
        trusts_old_reports: false,
        agents_replay: false,
    }
}

/// All of them.
#[must_use]
pub fn mutants() -> Vec<Mutant> {
    let mut all = of_membership();
    all.extend(of_records());
    all
}

#[allow(clippy::too_many_lines, reason = "a list")]
fn of_membership() -> Vec<Mutant> {
    vec![
        Mutant {
            doctor: |facts, _| {
                of_reports(facts, |report| {
                    if let Some(etcd) = &mut report.etcd {
                        etcd.applied = etcd.commit;
                    }
                });
            },
            ..mutant("a learner is promoted too early", "3", edited(&[4], &[], 0))
        },
        Mutant {
            edit: |facts, plan| {
                if let Some(step) = removal(facts, |member| member.deleting || is_unborn(member))
                    && !plan.has_consensus_step()
                {
                    plan.step(step);
                }
            },
            ..mutant(
                "a member is removed before a quorum stands without it",
                "2",
                three(&[Fault::People, Fault::Etcd], 2),
            )
        },
        Mutant {
            doctor: |facts, last| {
                if let (Fact::Known { value, .. }, Some(last)) = (&mut facts.list, last) {
                    value.clone_from(last);
                }
            },
            remembers: true,
            // Up and down again: whoever was admitted in between must not go without etcd's knowledge.
            ..mutant(
                "it acts on a stale list",
                "6",
                Profile {
                    edits: 2,
                    ..edited(&[4, 3], &[], 0)
                },
            )
        },
        Mutant {
            edit: |facts, plan| {
                let second = plan.steps().find_map(|step| match step {
                    Step::AddLearner { via, member, .. } => {
                        let other = facts
                            .members
                            .iter()
                            .find(|other| other.name != *member && is_unborn(other))?;
                        Some(Step::AddLearner {
                            via: via.clone(),
                            member: other.name.clone(),
                            peer_url: other.peer_url.clone(),
                        })
                    }
                    _ => None,
                });
                plan.chain(second.into_iter().collect());
            },
            ..mutant("two members are added at once", "1", edited(&[5], &[], 0))
        },
        Mutant {
            doctor: |facts, _| facts.unanswered = None,
            ..mutant(
                "a call without an answer is forgotten",
                "1",
                edited(&[4, 2], &[Fault::Answers, Fault::Elections], 2),
            )
        },
        Mutant {
            doctor: |facts, _| {
                for member in &mut facts.members {
                    if let (Link::Down { .. }, Fact::Known { value, at }) = (&member.link, &facts.list)
                        && let Some(listed) = value
                            .members
                            .iter()
                            .find(|one| one.peer_urls.contains(&member.peer_url))
                    {
                        member.link = gone(listed.id, *at);
                    }
                }
            },
            ..mutant("unreachable is taken for gone", "7", three(&[Fault::Links], 1))
        },
        Mutant {
            doctor: |facts, _| {
                if facts.cluster.record.cluster_id.is_some() && facts.list.known().is_none() {
                    facts.list = Fact::Known {
                        value: MemberList {
                            cluster_id: facts.cluster.record.cluster_id,
                            members: Vec::new(),
                        },
                        at: facts.now,
                    };
                }
            },
            ..mutant(
                "a list that cannot be read is taken for an empty one",
                "7",
                edited(&[2], &[Fault::Etcd], 2),
            )
        },
        Mutant {
            trusts_old_reports: true,
            ..mutant(
                "nobody is heard anew before a change of membership",
                "",
                edited(&[2], &[Fault::Links, Fault::Etcd], 2),
            )
        },
        Mutant {
            doctor: |facts, _| {
                let told = |member: &plan::facts::Member| member.sent.is_some();
                let names: Vec<_> = facts
                    .members
                    .iter()
                    .filter(|one| !told(one))
                    .map(|one| one.peer_url.clone())
                    .collect();
                for member in &mut facts.members {
                    if let Link::Up { report, .. } = &mut member.link
                        && names.contains(&member.peer_url)
                        && let Some(etcd) = report.etcd.as_mut().filter(|etcd| etcd.learner)
                    {
                        etcd.receiving_snapshot = true;
                    }
                }
            },
            ..mutant(
                "only a learner that this very process has told to join is promoted",
                "9",
                edited(&[4], &[Fault::Operator], 1),
            )
        },
        Mutant {
            edit: |facts, plan| {
                if facts.refusal.is_some() {
                    plan.chains.retain(|chain| !chain.iter().any(Step::is_consensus));
                }
            },
            ..mutant(
                "what was refused once is never asked for again",
                "9",
                edited(&[5], &[Fault::Etcd], 1),
            )
        },
    ]
}

#[allow(clippy::too_many_lines, reason = "a list")]
fn of_records() -> Vec<Mutant> {
    vec![
        Mutant {
            doctor: |facts, _| {
                let nonces: Vec<_> = facts.members.iter().map(|one| (one.name.clone(), nonce(one))).collect();
                if let Some(seed) = &mut facts.cluster.record.seed
                    && let Some((_, Some(nonce))) = nonces.iter().find(|(name, _)| *name == seed.member)
                {
                    seed.nonce.clone_from(nonce);
                }
            },
            ..mutant(
                // Recorded before it is ordered: that the ID is bound to a second directory is seen first.
                "`new` is given twice",
                "5",
                Profile {
                    formed: false,
                    ..three(&[Fault::Disks], 1)
                },
            )
        },
        Mutant {
            edit: |facts, plan| {
                let Some(Step::Remove { member, id, .. }) = plan.steps().find(|step| step.kind() == "Remove").cloned()
                else {
                    return;
                };
                let of = facts.members.iter().find(|one| one.name == member && is_unborn(one));
                let Some((of, nonce)) = of.and_then(|of| Some((of, nonce(of)?))) else {
                    return;
                };
                plan.chains.retain(|chain| !chain.iter().any(Step::is_consensus));
                plan.chain(join(facts, &of.name, id, nonce, of.record.directive + 1));
            },
            ..mutant(
                "an ID is used again on an emptied directory",
                "5",
                three(&[Fault::Disks], 1),
            )
        },
        Mutant {
            edit: |facts, plan| {
                for member in facts
                    .members
                    .iter()
                    .filter(|member| member.deleting && member.finalizer)
                {
                    plan.step(Step::ReleaseMember {
                        member: member.name.clone(),
                        uid: member.uid.clone(),
                    });
                }
            },
            ..mutant("a claim goes while etcd counts on it", "6", three(&[Fault::People], 1))
        },
        Mutant {
            edit: |facts, plan| {
                for member in &facts.members {
                    if let Some(pod) = member.pod.ours().filter(|pod| !pod.voter_label && pod.ready) {
                        plan.step(Step::LabelPod {
                            member: member.name.clone(),
                            uid: pod.uid.clone(),
                            voter: true,
                        });
                    }
                }
            },
            ..mutant("a learner is put behind the client Service", "3", edited(&[4], &[], 0))
        },
        Mutant {
            edit: |facts, plan| {
                for member in &facts.members {
                    let held = member.link.live().filter(|report| {
                        report.process.state == ProcessState::Held && report.directory.state == DirectoryState::Intact
                    });
                    if let (Some(report), Some(binding)) = (held, &member.record.binding) {
                        let number = member.record.directive.max(report.directive) + 1;
                        plan.chain(join(facts, &member.name, binding.id, binding.nonce.clone(), number));
                    }
                }
            },
            agents_replay: true,
            ..mutant(
                "an order that makes history is replayed",
                "12",
                three(&[Fault::Etcd], 1),
            )
        },
        Mutant {
            edit: |facts, plan| {
                for member in facts.members.iter().filter(|member| !member.deleting) {
                    if member
                        .link
                        .live()
                        .is_some_and(|report| report.etcd.is_none() && report.directory.started)
                    {
                        plan.step(Step::DeleteMember {
                            member: member.name.clone(),
                            uid: member.uid.clone(),
                        });
                    }
                }
            },
            ..mutant(
                "a voter's object is deleted before etcd has forgotten it",
                "6",
                three(&[Fault::Etcd], 1),
            )
        },
    ]
}

fn of_reports(facts: &mut Facts, change: impl Fn(&mut plan::report::Report)) {
    for member in &mut facts.members {
        if let Link::Up { report, .. } = &mut member.link {
            change(report);
        }
    }
}

fn is_unborn(member: &plan::facts::Member) -> bool {
    let report = member.link.live();
    report.is_some_and(|report| report.directory.state == DirectoryState::Unborn)
}

fn nonce(member: &plan::facts::Member) -> Option<String> {
    Some(member.link.live()?.directory.nonce.clone())
}

/// A removal without asking whether a quorum stands.
fn removal(facts: &Facts, which: impl Fn(&plan::facts::Member) -> bool) -> Option<Step> {
    let list = facts.list.known()?;
    let member = facts.members.iter().find(|member| which(member))?;
    let listed = list
        .members
        .iter()
        .find(|one| one.peer_urls.contains(&member.peer_url))?;
    let via = facts
        .members
        .iter()
        .find(|other| other.name != member.name && other.link.live().is_some_and(|report| report.etcd.is_some()))?;
    Some(Step::Remove {
        via: via.name.clone(),
        member: member.name.clone(),
        id: listed.id,
    })
}

/// A report of an agent that was never heard: its directory is empty.
fn gone(id: Id, at: jiff::Timestamp) -> Link {
    use plan::report::{Directory, Process, Report};
    Link::Up {
        report: Box::new(Report {
            agent_version: String::new(),
            directive: 0,
            directory: Directory {
                state: DirectoryState::Unborn,
                detail: String::new(),
                nonce: format!("lost-{id}"),
                started: false,
                identity: None,
                quarantined: Vec::new(),
                bytes: 0,
                fenced: false,
                fence_ordered: false,
                log: None,
            },
            process: Process {
                state: ProcessState::Held,
                started_at: 0,
                etcd_version: String::new(),
                restarts: 0,
                oom_kills: 0,
                exit: None,
            },
            etcd: None,
            waiting_for: String::new(),
            disk: plan::report::Disk::default(),
            recovery: None,
        }),
        at,
    }
}

fn join(facts: &Facts, member: &str, id: Id, nonce: String, number: u64) -> Vec<Step> {
    let record = &facts.cluster.record;
    let list = facts.list.known().map(|list| list.members.clone()).unwrap_or_default();
    let order = Order::Join {
        token: record.token.clone().unwrap_or_default(),
        incarnation: record.incarnation,
        member_id: id,
        cluster_id: record.cluster_id.unwrap_or(Id(0)),
        members: list
            .into_iter()
            .map(|listed| Peer {
                name: listed.name,
                id: listed.id,
                peer_urls: listed.peer_urls,
            })
            .collect(),
        options: facts.cluster.spec.options.clone(),
    };
    vec![
        Step::Bind {
            member: member.to_owned(),
            binding: Some(Binding {
                id,
                nonce: nonce.clone(),
            }),
            directive: number,
        },
        Step::Direct {
            member: member.to_owned(),
            number,
            nonce,
            order,
        },
    ]
}
