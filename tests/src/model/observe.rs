//! The facts that an operator would gather of the model.

use operator::plan::{
    facts::{
        Claim, Cluster, Fact, Facts, Leader, Link, Listed, Medium, Member, MemberList, Pod, PodFact, Services, Trouble,
    },
    report::{Directory, DirectoryState, Etcd, Identity, Process, ProcessState, Report},
    volumes::Volume,
};

use super::world::{Sim, SimMember, SimProcess};

impl Sim {
    pub fn facts(&self) -> Facts {
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
            members: self.members.iter().map(|member| self.member_facts(member)).collect(),
            list: self.list(),
            services: Services {
                headless: self.headless,
                client: self.client,
            },
            budget: self.budget,
            nudged: self.nudged.clone(),
            unproven_since: self.unproven_since,
            refusal: self.refusal.clone(),
            unanswered: self.unanswered.clone(),
            leader: self.leader_index.then(|| self.leader()).flatten(),
            retained: self.retained.clone(),
            rollout: self.rollout.clone(),
            hashes: self.hashes.clone(),
            growth_refused: None,
            missing_verbs: self.missing_verbs.clone(),
            failed: Vec::new(),
            recoveries: Vec::new(),
            seen: None,
        }
    }

    fn list(&self) -> Fact<MemberList> {
        if self.links_down || self.record.cluster_id.is_none() || !self.etcd.has_quorum() {
            return Fact::Unknown {
                why: "no quorum".into(),
            };
        }
        let members = self
            .etcd
            .list
            .iter()
            .map(|entry| Listed {
                id: entry.id,
                name: entry.name.clone(),
                peer_urls: vec![entry.peer_url.clone()],
                learner: entry.learner,
            })
            .collect();
        Fact::Known {
            value: MemberList {
                cluster_id: self.etcd.cluster_id,
                members,
            },
            at: self.now,
        }
    }

    fn leader(&self) -> Option<Leader> {
        Some(Leader {
            id: self.etcd.leader?,
            commit: self.etcd.index,
            at: self.now,
        })
    }

    fn member_facts(&self, member: &SimMember) -> Member {
        let memory = self.spec.medium == Medium::Memory;
        Member {
            name: member.name.clone(),
            uid: member.uid.clone(),
            created: member.created,
            deleting: member.deleting,
            deleted_just_now: false,
            finalizer: member.finalizer,
            dormant: member.dormant,
            bootstrap: member.bootstrap,
            version: Some(member.version),
            peer_url: member.peer_url(),
            identity_ready: member.secret,
            claim: if memory || !member.claim {
                Claim::Absent
            } else {
                Claim::Ours
            },
            volume: Volume::default(),
            pod: member.pod.as_ref().map_or(PodFact::Absent, |pod| {
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
                    trouble: (!pod.scheduled && self.unschedulable).then(|| Trouble {
                        reason: "Unschedulable".into(),
                        message: "0/1 nodes".into(),
                    }),
                })
            }),
            place: member.place.clone(),
            link: self.link(member),
            resolvable: member.pod.as_ref().is_some_and(|pod| pod.up),
            record: member.record.clone(),
            sent: member.sent.clone(),
        }
    }

    fn link(&self, member: &SimMember) -> Link {
        let (Some(pod), Some(disk)) = (member.pod.as_ref().filter(|pod| pod.has_agent), &member.disk) else {
            return Link::None;
        };
        if !pod.up || pod.agent_starts > 0 || self.links_down || self.cut_off.contains(&member.name) {
            return Link::Down {
                since: pod.created,
                why: self.cause.clone(),
                last: None,
            };
        }
        let runs = pod.process == SimProcess::Running;
        let state = match (&pod.process, disk.started) {
            _ if disk.unreadable => DirectoryState::Unreadable,
            (SimProcess::Running | SimProcess::Starting(_), true) => DirectoryState::InUse,
            (_, true) => DirectoryState::Intact,
            (_, false) => DirectoryState::Unborn,
        };
        let entry = disk
            .identity
            .and_then(|(id, _)| self.etcd.list.iter().find(|entry| entry.id == id));
        let leader = self.leader().map(|leader| leader.id);
        let etcd = disk.identity.filter(|_| runs).map(|(id, cluster)| Etcd {
            member_id: id,
            cluster_id: cluster,
            leader,
            commit: self.etcd.index,
            applied: disk.applied,
            learner: entry.is_some_and(|entry| entry.learner),
            version: member.version.to_string(),
            alarms: Vec::new(),
            serving: !(self.never_serves && entry.is_some_and(|entry| entry.learner)),
            receiving_snapshot: false,
            db_size: 20_000,
        });
        let report = Report {
            agent_version: "0.1.0".into(),
            directive: pod.directive,
            directory: Directory {
                state,
                detail: String::new(),
                nonce: disk.nonce.clone(),
                started: disk.started,
                identity: disk.identity.map(|(member_id, cluster_id)| Identity {
                    cluster_uid: "uid".into(),
                    // A later one begins only where nothing has an identity yet.
                    incarnation: self.record.incarnation,
                    cluster_id,
                    member_id,
                    nonce: disk.nonce.clone(),
                }),
                bytes: 0,
                fenced: false,
                fence_ordered: false,
                log: None,
            },
            process: Process {
                state: match pod.process {
                    SimProcess::Absent => ProcessState::Absent,
                    SimProcess::Held => ProcessState::Held,
                    SimProcess::Starting(_) => ProcessState::Starting,
                    SimProcess::Running => ProcessState::Running,
                },
                started_at: self.now.as_second(),
                etcd_version: member.version.to_string(),
                restarts: 0,
                oom_kills: 0,
                exit: None,
            },
            disk: operator::plan::report::Disk::default(),
            etcd,
            waiting_for: String::new(),
            recovery: None,
        };
        Link::Up {
            report: Box::new(report),
            at: self.now,
        }
    }
}
