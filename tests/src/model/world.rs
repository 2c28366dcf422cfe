//! The state of the model, how time passes in it, and how a run goes.

use std::time::Duration;

use jiff::Timestamp;
use operator::plan::{
    self,
    divergence::Hashes,
    facts::{
        Budget, ClusterRecord, Id, Medium, MemberRecord, Nudged, Options, Refusal, Sent, ServiceState, Spec,
        Unanswered, Version,
    },
    place::{Node, Place, Volume},
    rollout::Rollout,
    step::{Order, Plan, Step},
    volumes::Size,
};

use super::{check::Checks, etcd::Etcd};

/// Where the operator fails in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The operator is killed when it is about to do its n-th step (from 0).
    pub crash_before: Option<usize>,
    /// The n-th step is done, its answer is lost, and the operator is killed.
    pub crash_after: Option<usize>,
    /// The n-th step is done, and only its answer is lost.
    pub lose_answer: Option<usize>,
    /// The n-th step has no answer, and is done so many turns later. (A Kubernetes step is done at once.)
    pub apply_later: Option<(usize, u32)>,
}

pub struct Sim {
    pub now: Timestamp,
    pub spec: Spec,
    pub record: ClusterRecord,
    pub members: Vec<SimMember>,
    pub etcd: Etcd,
    pub headless: ServiceState,
    pub client: ServiceState,
    pub budget: Budget,
    pub ending: bool,
    pub checks: Checks,
    pub faults: Faults,
    pub steps: usize,
    pub log: Vec<String>,
    pub refusal: Option<Refusal>,
    pub nudged: Option<Nudged>,
    /// What comparing hashes has told. Without a beginning, nothing is compared.
    pub hashes: Hashes,
    pub unanswered: Option<Unanswered>,
    /// Proposals that etcd will carry out at that time, though whoever made them has given up.
    pub proposals: Vec<(Timestamp, Step)>,
    /// The leader's index can be read from etcd itself.
    pub leader_index: bool,
    /// Members whose agents are not heard.
    pub cut_off: Vec<String>,
    /// Why links are down.
    pub cause: String,
    pub missing_verbs: Vec<String>,
    /// Claims that were kept.
    pub retained: Vec<String>,
    /// Agent images that do not run.
    pub bad_images: Vec<String>,
    /// What is wanted of agents.
    pub rollout: Rollout,
    /// Learners start and never serve.
    pub never_serves: bool,
    pub unproven_since: Option<Timestamp>,
    /// When the last of the running members was connected.
    pub connected_at: Timestamp,
    pub counter: u64,
    /// Calls that change membership or leadership, refused ones too.
    pub consensus_calls: usize,
    /// No agent is heard.
    pub links_down: bool,
    /// Names of members whose Pods find no node.
    pub unschedulable: bool,
}

/// One `EtcdMember` and what is under it.
pub struct SimMember {
    pub name: String,
    pub uid: String,
    pub created: Timestamp,
    pub deleting: bool,
    pub finalizer: bool,
    pub dormant: bool,
    pub bootstrap: bool,
    pub version: Version,
    pub secret: bool,
    pub claim: bool,
    pub record: MemberRecord,
    pub sent: Option<Sent>,
    pub pod: Option<SimPod>,
    /// Where it is; a node that is lost keeps its Pod from ending.
    pub place: Place,
    /// The data directory: on the claim, or in the memory of the Pod.
    pub disk: Option<Disk>,
}

pub struct SimPod {
    pub uid: String,
    pub created: Timestamp,
    pub age: u32,
    pub deleting: bool,
    pub voter_label: bool,
    pub scheduled: bool,
    pub up: bool,
    pub has_agent: bool,
    pub agent_image: String,
    /// Turns until its agent is up again.
    pub agent_starts: u32,
    pub process: SimProcess,
    /// The highest directive number accepted.
    pub directive: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimProcess {
    Absent,
    Held,
    Starting(u32),
    Running,
}

#[derive(Clone, Debug)]
pub struct Disk {
    pub nonce: String,
    /// The ID that etcd started with on it, in which cluster.
    pub identity: Option<(Id, Id)>,
    /// Applied index; 0 before it has started.
    pub applied: u64,
    pub started: bool,
    /// Reading it fails.
    pub unreadable: bool,
}

pub(crate) fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

impl Sim {
    pub fn new(replicas: u32, etcd_version: &str, medium: Medium) -> Self {
        Self {
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            spec: Spec {
                replicas,
                version: version(etcd_version),
                medium,
                volume: Size::default(),
                options: Options::default(),
                progress_deadline: Duration::from_mins(10),
                node_loss: Duration::from_mins(5),
                rollout_paused: false,
                recovers_after: None,
                is_observed: false,
                invalid: Vec::new(),
                unsupported: Vec::new(),
                blocks_formation: Vec::new(),
            },
            record: ClusterRecord::default(),
            members: Vec::new(),
            etcd: Etcd::default(),
            headless: ServiceState::Stale,
            client: ServiceState::Stale,
            budget: Budget::Absent,
            ending: false,
            checks: Checks::default(),
            faults: Faults::default(),
            steps: 0,
            log: Vec::new(),
            refusal: None,
            nudged: None,
            hashes: Hashes::default(),
            unanswered: None,
            proposals: Vec::new(),
            leader_index: false,
            cut_off: Vec::new(),
            cause: "refused".into(),
            missing_verbs: Vec::new(),
            retained: Vec::new(),
            bad_images: Vec::new(),
            rollout: Rollout::default(),
            never_serves: false,
            unproven_since: None,
            connected_at: Timestamp::UNIX_EPOCH,
            counter: 0,
            consensus_calls: 0,
            unschedulable: false,
            links_down: false,
        }
    }

    pub fn fresh_name(&mut self, prefix: &str) -> String {
        self.counter += 1;
        format!("{prefix}{:03}", self.counter)
    }

    pub fn member(&mut self, name: &str) -> &mut SimMember {
        self.members
            .iter_mut()
            .find(|member| member.name == name)
            .unwrap_or_else(|| panic!("no member {name}"))
    }

    /// A person edits `spec.replicas`.
    pub fn scale(&mut self, replicas: u32) {
        self.spec.replicas = replicas;
        self.spec.is_observed = false;
    }

    /// One pass of the operator, then a moment passes. False: the pass had nothing to do.
    pub fn turn(&mut self) -> bool {
        let facts = self.facts();
        let plan = plan::plan(&facts);
        let count = plan.steps().filter(|step| step.is_consensus()).count();
        assert!(
            count <= 1,
            "two consensus steps in one plan: {plan:#?}\n{}",
            self.story()
        );
        self.check_plan(&facts, &plan);
        let acted = !plan.chains.is_empty();
        self.execute(&plan);
        self.report(&plan);
        self.pass_time();
        self.late_proposals();
        self.check();
        acted
    }

    /// The part of the statuses that later plans read, and what the process remembers of the quorum.
    fn report(&mut self, plan: &Plan) {
        let facts = self.facts();
        let view = operator::plan::view::View::new(&facts);
        for view_of in &view.members {
            let member = self
                .members
                .iter_mut()
                .find(|member| member.name == view_of.fact.name)
                .unwrap();
            let old = crds::EtcdMemberStatus {
                is_voter: member.record.voter,
                member_id: member.record.member_id.map(|id| id.to_string()),
                pod_uid: member.record.pod_uid.clone(),
                ..crds::EtcdMemberStatus::default()
            };
            let status = operator::plan::member_status::member(&view, plan, view_of, 1, &old);
            member.record.voter = status.is_voter;
            member.record.pod_uid = status.pod_uid;
            member.record.member_id = status.member_id.as_deref().and_then(Id::parse);
            member.record.heard |= status.data_directory.is_some();
        }
        let proven = operator::plan::quorum::proven(&view) || self.record.cluster_id.is_none();
        let now = self.now;
        if proven {
            self.unproven_since = None;
        } else {
            self.unproven_since.get_or_insert(now);
        }
    }

    /// Runs until the planner has nothing to do, several times in a row, and the target is reached.
    pub fn settle(&mut self) {
        self.settle_within(600);
    }

    pub fn settle_within(&mut self, turns: usize) {
        let mut quiet = 0;
        for _ in 0..turns {
            let acted = self.turn();
            quiet = if acted || !self.is_whole() { 0 } else { quiet + 1 };
            if quiet > 40 {
                return;
            }
        }
        panic!("not settled after {turns} turns: {}\n{}", self.describe(), self.story());
    }

    /// Runs so many turns, whatever comes of it.
    pub fn run(&mut self, turns: usize) {
        for _ in 0..turns {
            self.turn();
        }
    }

    pub fn is_whole(&self) -> bool {
        let target = self.spec.replicas as usize;
        if self.ending {
            return self.members.is_empty();
        }
        if target == 0 {
            return self.members.iter().all(|member| member.pod.is_none());
        }
        let voters = self.etcd.list.iter().filter(|member| !member.learner).count();
        self.etcd.list.len() == target
            && voters == target
            && self.staying().count() == target
            && self.staying().all(|member| {
                member
                    .pod
                    .as_ref()
                    .is_some_and(|pod| pod.process == SimProcess::Running && pod.voter_label)
            })
    }

    /// Members that are not what is left of those that were replaced because of their node.
    pub fn staying(&self) -> impl Iterator<Item = &SimMember> {
        self.members
            .iter()
            .filter(|member| !(member.deleting && member.place.node.lost_since().is_some()))
    }

    pub fn voters(&self) -> usize {
        self.etcd.list.iter().filter(|member| !member.learner).count()
    }

    fn pass_time(&mut self) {
        self.now += Duration::from_millis(100);
        let unschedulable = self.unschedulable;
        let medium = self.spec.medium;
        let now = self.now;
        let mut fresh = self.counter;
        for member in &mut self.members {
            let Some(pod) = &mut member.pod else { continue };
            if pod.agent_starts != u32::MAX {
                pod.agent_starts = pod.agent_starts.saturating_sub(1);
            }
            if member.place.node.lost_since().is_some() {
                continue;
            }
            if pod.deleting {
                member.place = Place::default();
                member.pod = None;
                if medium == Medium::Memory {
                    member.disk = None;
                }
                continue;
            }
            pod.age += 1;
            if !pod.scheduled {
                pod.scheduled = !unschedulable && (medium == Medium::Memory || member.claim);
                continue;
            }
            if !pod.up && pod.age > 3 && member.secret {
                pod.up = true;
                pod.process = SimProcess::Held;
                if member.disk.is_none() {
                    fresh += 1;
                    member.disk = Some(Disk {
                        nonce: format!("nonce{fresh}"),
                        identity: None,
                        applied: 0,
                        started: false,
                        unreadable: false,
                    });
                }
            }
        }
        self.counter = fresh;
        self.start_processes(now);
        // Deletion of objects: with the finalizer gone, the object and all that is under it go.
        self.members.retain(|member| !member.deleting || member.finalizer);
    }

    fn start_processes(&mut self, _now: Timestamp) {
        for member in &mut self.members {
            let (Some(pod), Some(disk)) = (&mut member.pod, &mut member.disk) else {
                continue;
            };
            match (&pod.process, disk.identity) {
                _ if disk.unreadable => {}
                // A directory with a recorded identity starts by itself.
                (SimProcess::Held, Some(_)) if disk.started => pod.process = SimProcess::Starting(0),
                (SimProcess::Starting(age), Some((_, id))) => {
                    let (cluster, age) = (id, *age);
                    disk.started = true;
                    self.checks.started(id_of(disk), &disk.nonce);
                    if !self.etcd.list.iter().any(|listed| listed.id == id_of(disk)) && self.etcd.formed() {
                        // Removed: it ends.
                        pod.process = SimProcess::Held;
                        continue;
                    }
                    pod.process = if age >= 2 {
                        SimProcess::Running
                    } else {
                        SimProcess::Starting(age + 1)
                    };
                    if pod.process == SimProcess::Running {
                        self.etcd
                            .publish(id_of(disk), cluster, &member.name, &member.peer_url());
                    }
                }
                (SimProcess::Running, Some(_)) => {
                    if self.etcd.list.iter().any(|listed| listed.id == id_of(disk)) {
                        disk.applied = (disk.applied + 2000).min(self.etcd.index);
                    } else {
                        pod.process = SimProcess::Held;
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes an order, as an agent does: `new` and `existing` only for the directory it is meant for.
    pub fn order(&mut self, name: &str, number: u64, nonce: &str, order: &Order) -> bool {
        let now_formed = self.etcd.formed();
        let index = self.members.iter().position(|member| member.name == name).unwrap();
        let peer_url = self.members[index].peer_url();
        let medium_nonce = self.fresh_name("nonce");
        let member = &mut self.members[index];
        let (Some(pod), Some(disk)) = (&mut member.pod, &mut member.disk) else {
            return false;
        };
        if number <= pod.directive {
            return false;
        }
        match order {
            Order::Seed {
                member_id,
                cluster_id,
                incarnation,
                ..
            } => {
                if nonce != disk.nonce || disk.started || pod.process != SimProcess::Held {
                    return false;
                }
                self.checks.seeded(*incarnation, name, nonce, now_formed);
                disk.identity = Some((*member_id, *cluster_id));
                pod.process = SimProcess::Starting(0);
                let _ = peer_url;
            }
            Order::Join {
                member_id,
                cluster_id,
                members,
                ..
            } => {
                if nonce != disk.nonce || disk.started || pod.process != SimProcess::Held {
                    return false;
                }
                disk.identity = Some((*member_id, *cluster_id));
                pod.directive = number;
                // etcd compares the list in its configuration with the one its peers give.
                if members.len() == self.etcd.list.len() {
                    pod.process = SimProcess::Starting(0);
                } else {
                    self.log.push(format!("      {name}: member count is unequal"));
                }
            }
            Order::Resume { .. } => {}
            Order::Fence { .. } | Order::Lift { .. } | Order::Recover { .. } => {
                unreachable!("no recovery is asked for in this model\n{}", self.log.join("\n"))
            }
            Order::Quarantine { removed, .. } => {
                if disk.identity.map(|(id, _)| id) != Some(*removed) {
                    return false;
                }
                assert!(
                    !self.etcd.list.iter().any(|listed| listed.id == *removed),
                    "quarantine of a member that etcd lists\n{}",
                    self.log.join("\n")
                );
                *disk = Disk {
                    nonce: medium_nonce,
                    identity: None,
                    applied: 0,
                    started: false,
                    unreadable: false,
                };
                pod.process = SimProcess::Held;
            }
        }
        pod.directive = number;
        true
    }

    // Faults of the world.

    pub fn kill_pod(&mut self, name: &str) {
        let medium = self.spec.medium;
        let member = self.member(name);
        member.pod = None;
        if medium == Medium::Memory {
            member.disk = None;
        }
        self.log.push(format!("  !! Pod {name} is gone"));
    }

    /// The node of a member is dead: nothing of it is heard, its Pod cannot end, and a volume that only this node has
    /// (memory, a local disk) is out of reach.
    pub fn lose_node(&mut self, name: &str, volume: Volume) {
        let since = self.now;
        let member = self.member(name);
        member.place.node = Node::Lost { since };
        member.place.volume = volume;
        if let Some(pod) = &mut member.pod {
            pod.up = false;
            pod.process = SimProcess::Absent;
        }
        self.log.push(format!("  !! the node of {name} is lost"));
        self.refresh_running();
    }

    /// It is back, having lost its memory.
    pub fn node_returns(&mut self, name: &str) {
        let memory = self.spec.medium == Medium::Memory;
        let member = self.member(name);
        member.place = Place::default();
        if memory {
            member.disk = None;
        }
        self.log.push(format!("  !! the node of {name} is back"));
    }

    /// The volume is emptied under a member that then starts again.
    pub fn lose_disk(&mut self, name: &str) {
        let nonce = self.fresh_name("nonce");
        let member = self.member(name);
        member.disk = Some(Disk {
            nonce,
            identity: None,
            applied: 0,
            started: false,
            unreadable: false,
        });
        if let Some(pod) = &mut member.pod {
            pod.process = SimProcess::Held;
        }
        self.log.push(format!("  !! disk of {name} is emptied"));
    }

    /// A fault shows: who runs is looked at again.
    pub fn refresh(&mut self) {
        self.refresh_running();
    }

    pub fn names(&self) -> Vec<String> {
        self.members.iter().map(|member| member.name.clone()).collect()
    }

    pub fn story(&self) -> String {
        let skip = self.log.len().saturating_sub(120);
        self.log[skip..].join("\n")
    }

    pub fn describe(&self) -> String {
        let members: Vec<String> = self
            .members
            .iter()
            .map(|member| {
                format!(
                    "{} deleting={} binding={:?} pod={:?} disk={:?}",
                    member.name,
                    member.deleting,
                    member.record.binding,
                    member.pod.as_ref().map(|pod| (pod.up, &pod.process, pod.voter_label)),
                    member.disk
                )
            })
            .collect();
        format!(
            "record {:?}\nlist {:?}\n{}",
            self.record,
            self.etcd.list,
            members.join("\n")
        )
    }

    pub fn plan_now(&self) -> Plan {
        plan::plan(&self.facts())
    }
}

fn id_of(disk: &Disk) -> Id {
    disk.identity.map_or(Id(0), |(id, _)| id)
}

impl SimMember {
    #[must_use]
    pub fn peer_url(&self) -> String {
        format!("http://{}.c.ns.svc:2380", self.name)
    }
}
