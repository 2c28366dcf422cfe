//! The facts that an operator would gather of the model.

use jiff::{SignedDuration, Timestamp};
use operator::plan::{
    facts::{Claim, Cluster, Fact, Facts, Leader, Link, Medium, Member, MemberList, Pod, PodFact, Services, Trouble},
    report::{Directory, DirectoryState, Etcd, Identity, Process, ProcessState, Report},
    step::Plan,
    view::serves,
    volumes::Volume,
};

use super::{
    planners::Planner,
    world::{Disk, Sim, SimMember, SimPod, SimProcess},
};

/// For so long a planner that (wrongly) remembers a list goes by it.
const KEEPS: SignedDuration = SignedDuration::from_secs(2);

impl Sim {
    /// What the operator does at the beginning of a pass: it gathers facts, asks again where it must, and plans.
    pub fn decide(&mut self, planner: &dyn Planner) -> (Facts, Plan) {
        let needed = reports_to_refresh(&self.facts());
        self.ask_again(&needed);
        let facts = self.facts();
        let mut plan = planner.plan(&facts, self.last_list.as_ref().map(|(_, list)| list));
        if plan.has_consensus_step() {
            let counted_on: Vec<String> = facts
                .members
                .iter()
                .filter(|member| {
                    let report = member.link.live();
                    report
                        .is_some_and(|report| report.etcd.is_some() || report.directory.state == DirectoryState::Unborn)
                })
                .map(|member| member.name.clone())
                .collect();
            if planner.confirms() && counted_on.iter().any(|name| self.late.contains_key(name)) {
                self.ask_again(&counted_on);
                let facts = self.facts();
                plan = planner.plan(&facts, self.last_list.as_ref().map(|(_, list)| list));
                self.remember_list(planner, &facts);
                return (facts, plan);
            }
        }
        self.remember_list(planner, &facts);
        (facts, plan)
    }

    fn remember_list(&mut self, planner: &dyn Planner, facts: &Facts) {
        let is_old = |read: Timestamp| facts.now.duration_since(read) > KEEPS;
        if planner.remembers()
            && self.last_list.as_ref().is_none_or(|(read, _)| is_old(*read))
            && let Some(list) = facts.list.known()
        {
            self.last_list = Some((facts.now, list.clone()));
        }
    }

    fn ask_again(&mut self, names: &[String]) {
        self.late.retain(|name, _| !names.contains(name));
    }

    /// The facts, without asking any agent again.
    #[must_use]
    pub fn facts(&self) -> Facts {
        let seen = self.cache.as_deref().unwrap_or(&self.members);
        let members: Vec<Member> = seen.iter().map(|member| self.member_facts(member)).collect();
        let (list, leader) = (self.list(&members), self.leader(&members));
        Facts {
            now: self.now,
            cluster: Cluster {
                name: "c".into(),
                namespace: "ns".into(),
                uid: "uid".into(),
                generation: 1,
                peer_suffix: ".c.ns.svc:2380".into(),
                ending: self.ending,
                hands_off: false,
                spec: self.spec.clone(),
                record: self.record.clone(),
            },
            members,
            list,
            services: Services {
                headless: self.headless,
                client: self.client,
            },
            budget: self.budget,
            nudged: self.nudged.clone(),
            unproven_since: self.unproven_since,
            refusal: self.refusal.clone(),
            unanswered: self.unanswered.clone(),
            rollout: self.rollout.clone(),
            hashes: self.hashes.clone(),
            growth_refused: None,
            leader,
            retained: self.retained.clone(),
            missing_verbs: self.missing_verbs.clone(),
            failed: Vec::new(),
            recoveries: Vec::new(),
            seen: None,
        }
    }

    /// Read with quorum: from the first voter that says it serves, or from any when nobody is heard.
    fn list(&self, members: &[Member]) -> Fact<MemberList> {
        let unknown = |why: &str| Fact::Unknown { why: why.into() };
        if self.links_down || self.record.cluster_id.is_none() || self.ending {
            return unknown("no quorum");
        }
        let heard = |member: &&Member| member.link.live().is_some();
        let says_so = |member: &&Member| {
            let report = member.link.live();
            report.is_some_and(|report| serves(report) && report.etcd.as_ref().is_some_and(|etcd| !etcd.learner))
        };
        let mut asked: Vec<&Member> = members.iter().filter(says_so).collect();
        if asked.is_empty() {
            asked = members
                .iter()
                .filter(|member| member.record.voter && !heard(member))
                .collect();
        }
        let reads = |member: &&Member| {
            let id = self.id_of(&member.name);
            id.is_some_and(|id| self.etcd.members_at(id).is_ok())
        };
        if asked.iter().any(reads) {
            Fact::Known {
                value: self.read_list(),
                at: self.now,
            }
        } else {
            unknown("no quorum")
        }
    }

    /// By its own word, when a learner waits for its index and its agent does not tell.
    fn leader(&self, members: &[Member]) -> Option<Leader> {
        if !self.leader_index {
            return None;
        }
        let etcds: Vec<&Etcd> = members
            .iter()
            .filter_map(|member| member.link.live()?.etcd.as_ref())
            .collect();
        let id = etcds.iter().filter(|etcd| !etcd.learner).find_map(|etcd| etcd.leader)?;
        let learner = etcds.iter().any(|etcd| etcd.learner && etcd.serving);
        let told = etcds.iter().any(|etcd| etcd.member_id == id);
        let asked = learner && !told && self.etcd.leader == Some(id);
        asked.then_some(Leader {
            id,
            commit: self.etcd.index,
            at: self.now,
        })
    }

    fn member_facts(&self, member: &SimMember) -> Member {
        let memory = self.spec.medium == Medium::Memory;
        let pod = member.pod.as_ref().map_or(PodFact::Absent, |pod| {
            PodFact::Ours(Pod {
                uid: pod.uid.clone(),
                created: pod.created,
                deleting: pod.deleting,
                ended: false,
                ready: pod.process == SimProcess::Running && pod.agent_starts == 0,
                ip: pod.up.then(|| "10.0.0.1".to_owned()),
                node: pod.scheduled.then(|| "n1".to_owned()),
                voter_label: pod.voter_label,
                cluster_label: true,
                has_agent: pod.has_agent,
                agent_image: Some(pod.agent_image.clone()),
                agent_fails: false,
                etcd_version: Some(member.version),
                trouble: self.trouble(member, pod),
            })
        });
        Member {
            name: member.name.clone(),
            uid: member.uid.clone(),
            created: member.created,
            deleting: member.deleting,
            deleted_just_now: false,
            finalizer: member.finalizer,
            dormant: member.dormant,
            volume: Volume::default(),
            place: member.place.clone(),
            bootstrap: member.bootstrap,
            version: Some(member.version),
            peer_url: member.peer_url(),
            identity_ready: member.secret,
            claim: if memory || !member.claim {
                Claim::Absent
            } else {
                Claim::Ours
            },
            pod,
            link: self.link(member),
            resolvable: member.pod.as_ref().is_some_and(|pod| pod.up),
            record: member.record.clone(),
            sent: self.find(&member.name).and_then(|live| live.sent.clone()),
        }
    }

    fn trouble(&self, member: &SimMember, pod: &SimPod) -> Option<Trouble> {
        let placed = pod.scheduled || !(self.unschedulable || self.stuck.contains(&member.name));
        (!placed).then(|| Trouble {
            reason: "Unschedulable".into(),
            message: "0/1 nodes".into(),
        })
    }

    fn link(&self, seen: &SimMember) -> Link {
        let Some(pod) = seen.pod.as_ref().filter(|pod| pod.has_agent) else {
            return Link::None;
        };
        let down = || Link::Down {
            since: pod.created,
            why: self.cause.clone(),
            last: None,
        };
        if !pod.up || pod.agent_starts > 0 || self.links_down || self.cut_off.contains(&seen.name) {
            return down();
        }
        if let Some((report, at)) = self.late.get(&seen.name) {
            return Link::Up {
                report: report.clone(),
                at: *at,
            };
        }
        match self.report_of(&seen.name) {
            // The Pod that the watches show may be gone, and another one there.
            Some(report) if self.is_same_pod(seen) => Link::Up {
                report: Box::new(report),
                at: self.now,
            },
            Some(_) | None => down(),
        }
    }

    fn is_same_pod(&self, seen: &SimMember) -> bool {
        let uid = |member: &SimMember| member.pod.as_ref().map(|pod| pod.uid.clone());
        self.find(&seen.name).and_then(uid) == uid(seen)
    }

    /// What the agent of that member would say now.
    #[must_use]
    pub fn report_of(&self, name: &str) -> Option<Report> {
        let member = self.find(name)?;
        let pod = member.pod.as_ref().filter(|pod| pod.up)?;
        let disk = member.disk.as_ref()?;
        let started_at = pod.started_at.as_second();
        Some(Report {
            agent_version: "0.1.0".into(),
            directive: pod.directive,
            directory: Directory {
                state: state(pod, disk),
                detail: String::new(),
                nonce: disk.nonce.clone(),
                started: disk.started,
                identity: disk.identity.map(|(member_id, cluster_id)| Identity {
                    cluster_uid: "uid".into(),
                    incarnation: disk.incarnation,
                    cluster_id,
                    member_id,
                    nonce: disk.nonce.clone(),
                }),
                bytes: 0,
                fenced: false,
                fence_ordered: false,
                log: None,
                quarantined: Vec::new(),
            },
            process: Process {
                state: match pod.process {
                    SimProcess::Absent => ProcessState::Absent,
                    SimProcess::Held => ProcessState::Held,
                    SimProcess::Starting(_) => ProcessState::Starting,
                    SimProcess::Running => ProcessState::Running,
                },
                started_at,
                etcd_version: member.version.to_string(),
                restarts: 0,
                oom_kills: 0,
                exit: None,
            },
            etcd: self
                .etcd_of(member, disk)
                .filter(|_| pod.process == SimProcess::Running),
            waiting_for: String::new(),
            disk: operator::plan::report::Disk::default(),
            recovery: None,
        })
    }

    fn etcd_of(&self, member: &SimMember, disk: &Disk) -> Option<Etcd> {
        let (id, cluster) = disk.identity?;
        let entry = self.etcd.entry(id);
        // Of another history: it leads itself.
        let rogue = self.etcd.cluster_id != Some(cluster);
        Some(Etcd {
            member_id: id,
            cluster_id: cluster,
            leader: if rogue {
                Some(id)
            } else {
                self.etcd.leader.filter(|_| self.etcd.follows(id))
            },
            commit: self.etcd.index,
            applied: disk.applied,
            learner: entry.is_some_and(|entry| entry.learner),
            version: member.version.to_string(),
            alarms: Vec::new(),
            serving: !(self.never_serves && entry.is_some_and(|entry| entry.learner)),
            receiving_snapshot: false,
            db_size: 20_000,
        })
    }
}

fn state(pod: &SimPod, disk: &Disk) -> DirectoryState {
    let runs = matches!(pod.process, SimProcess::Running | SimProcess::Starting(_));
    match disk.started {
        _ if disk.unreadable => DirectoryState::Unreadable,
        _ if disk.damaged => DirectoryState::Damaged,
        true if runs => DirectoryState::InUse,
        true => DirectoryState::Intact,
        false => DirectoryState::Unborn,
    }
}

/// As the operator does: indexes of learners and of the leader, and everybody's word when somebody knows no leader.
fn reports_to_refresh(facts: &Facts) -> Vec<String> {
    let live = |member: &Member| member.link.live().and_then(|report| report.etcd.clone());
    let mut etcds = facts.members.iter().filter_map(live);
    let learner = etcds.clone().any(|etcd| etcd.learner && etcd.serving);
    let leaderless = etcds.any(|etcd| etcd.leader.is_none());
    let needed = |member: &&Member| {
        live(member)
            .is_some_and(|etcd| leaderless || (learner && (etcd.learner || etcd.leader == Some(etcd.member_id))))
    };
    facts
        .members
        .iter()
        .filter(needed)
        .map(|member| member.name.clone())
        .collect()
}
