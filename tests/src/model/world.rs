//! The state of the model: Kubernetes' objects, the agents and their directories, and what one operator remembers.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use operator::plan::{
    divergence::Hashes,
    facts::{
        Budget, ClusterRecord, Id, Medium, MemberList, MemberRecord, Nudged, Options, Refusal, Sent, ServiceState,
        Spec, Unanswered, Version,
    },
    place::Place,
    report::Report,
    rollout::Rollout,
    step::Step,
    volumes::Size,
};

use super::{check::Checks, etcd::Etcd};

/// Where the operator fails in a timed run.
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

/// A change that etcd may carry out though whoever asked for it has given up.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// What was asked.
    pub step: Step,
    /// When.
    pub at: Timestamp,
    /// When it is carried out; `None`: whenever a move says so.
    pub due: Option<Timestamp>,
}

/// Everything.
#[derive(Clone, Debug)]
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
    pub proposals: Vec<Proposal>,

    // What the operator remembers; `sent` is with the members.
    pub refusal: Option<Refusal>,
    pub nudged: Option<Nudged>,
    pub unanswered: Option<Unanswered>,
    pub unproven_since: Option<Timestamp>,
    /// What is left of the plan that is being carried out.
    pub pass: Vec<Vec<Step>>,
    /// Members as the operator's watches show them, while these lag behind.
    pub cache: Option<Vec<SimMember>>,
    /// It was killed, and nobody can act before its Lease has run out.
    pub down: bool,
    /// The list that was read last, and when, for planners that (wrongly) remember it.
    pub last_list: Option<(Timestamp, MemberList)>,

    // The world around.
    /// The leader's index can be read from etcd itself.
    pub leader_index: bool,
    /// Members whose agents are not heard.
    pub cut_off: Vec<String>,
    /// Members that are not connected to the others.
    pub isolated: Vec<String>,
    /// Their IDs, as the network was last cut.
    pub(super) far: Vec<Id>,
    /// Members whose Pods find no node.
    pub stuck: Vec<String>,
    /// Reports that were sent and have been overtaken: what the operator has of these members.
    pub late: BTreeMap<String, (Box<Report>, Timestamp)>,
    /// Why links are down.
    pub cause: String,
    pub missing_verbs: Vec<String>,
    /// Claims that were kept.
    pub retained: Vec<String>,
    /// What comparing hashes has told. Without a beginning, nothing is compared.
    pub hashes: Hashes,
    /// Agent images that do not run.
    pub bad_images: Vec<String>,
    /// What is wanted of agents.
    pub rollout: Rollout,
    /// Learners start and never serve.
    pub never_serves: bool,
    /// When the last of the running members was connected.
    pub connected_at: Timestamp,
    /// How many names were given, by their prefixes.
    pub counters: BTreeMap<&'static str, u64>,
    /// No agent is heard.
    pub links_down: bool,
    /// No Pod finds a node.
    pub unschedulable: bool,
    /// Agents carry a `Once` order out whatever the directory says: a defect to be caught.
    pub agents_replay: bool,

    // The run.
    pub faults: Faults,
    pub steps: usize,
    pub log: Vec<String>,
    pub logging: bool,
    /// Calls that change membership or leadership, refused ones too.
    pub consensus_calls: usize,
    /// Steps that were carried out, failed ones too, but for nudges.
    pub carried_out: usize,
    /// The first invariant that was broken.
    pub violation: Option<Violation>,
}

/// A broken invariant of the architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number.
    pub invariant: u8,
    /// What was seen.
    pub what: String,
}

/// One `EtcdMember` and what is under it.
#[derive(Clone, Debug)]
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

/// Its Pod.
#[derive(Clone, Debug)]
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
    /// When etcd was started.
    pub started_at: Timestamp,
    /// The highest directive number accepted.
    pub directive: u64,
}

/// etcd's process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SimProcess {
    Absent,
    Held,
    Starting(u32),
    Running,
}

/// A data directory.
#[derive(Clone, Debug)]
pub struct Disk {
    pub nonce: String,
    /// The ID that etcd started with on it, in which cluster.
    pub identity: Option<(Id, Id)>,
    /// In which incarnation.
    pub incarnation: u64,
    /// Applied index; 0 before it has started.
    pub applied: u64,
    pub started: bool,
    /// Reading it fails.
    pub unreadable: bool,
    /// etcd cannot start on it.
    pub damaged: bool,
    /// etcd has ended here because the others had removed it.
    pub removed: bool,
    /// Members in the configuration that a joiner was given.
    pub expects: Option<usize>,
}

impl Disk {
    pub(super) fn empty(nonce: String) -> Self {
        Self {
            nonce,
            identity: None,
            incarnation: 0,
            applied: 0,
            started: false,
            unreadable: false,
            damaged: false,
            removed: false,
            expects: None,
        }
    }

    /// The member ID that is recorded on it.
    #[must_use]
    pub fn id(&self) -> Option<Id> {
        self.identity.map(|(id, _)| id)
    }

    /// etcd can start on it.
    #[must_use]
    pub fn usable(&self) -> bool {
        self.started && self.identity.is_some() && !self.unreadable && !self.damaged && !self.removed
    }
}

pub(crate) fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

impl Sim {
    #[must_use]
    pub fn new(replicas: u32, etcd_version: &str, medium: Medium) -> Self {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        Self {
            now,
            spec: Spec {
                replicas,
                version: version(etcd_version),
                medium,
                options: Options::default(),
                progress_deadline: Duration::from_mins(10),
                is_observed: false,
                invalid: Vec::new(),
                unsupported: Vec::new(),
                blocks_formation: Vec::new(),
                volume: Size::default(),
                node_loss: Duration::from_mins(5),
                rollout_paused: false,
                recovers_after: None,
            },
            record: ClusterRecord::default(),
            members: Vec::new(),
            etcd: Etcd::default(),
            headless: ServiceState::Stale,
            client: ServiceState::Stale,
            budget: Budget::Absent,
            ending: false,
            checks: Checks::default(),
            proposals: Vec::new(),
            refusal: None,
            nudged: None,
            unanswered: None,
            unproven_since: None,
            pass: Vec::new(),
            cache: None,
            down: false,
            last_list: None,
            leader_index: false,
            cut_off: Vec::new(),
            isolated: Vec::new(),
            far: Vec::new(),
            stuck: Vec::new(),
            late: BTreeMap::new(),
            cause: "refused".into(),
            missing_verbs: Vec::new(),
            hashes: Hashes::default(),
            bad_images: Vec::new(),
            rollout: Rollout::default(),
            retained: Vec::new(),
            never_serves: false,
            connected_at: Timestamp::UNIX_EPOCH,
            counters: BTreeMap::new(),
            links_down: false,
            unschedulable: false,
            agents_replay: false,
            faults: Faults::default(),
            steps: 0,
            log: Vec::new(),
            logging: true,
            consensus_calls: 0,
            carried_out: 0,
            violation: None,
        }
    }

    pub(super) fn fresh_name(&mut self, prefix: &'static str) -> String {
        let counter = self.counters.entry(prefix).or_default();
        *counter += 1;
        format!("{prefix}{counter:03}")
    }

    /// The member of that name, which must be there.
    pub fn member(&mut self, name: &str) -> &mut SimMember {
        self.find_mut(name).unwrap_or_else(|| panic!("no member {name}"))
    }

    /// The member of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&SimMember> {
        self.members.iter().find(|member| member.name == name)
    }

    pub(super) fn find_mut(&mut self, name: &str) -> Option<&mut SimMember> {
        self.members.iter_mut().find(|member| member.name == name)
    }

    /// The member whose directory has that ID.
    #[must_use]
    pub fn owner(&self, id: Id) -> Option<&SimMember> {
        self.members
            .iter()
            .find(|member| member.disk.as_ref().and_then(Disk::id) == Some(id))
    }

    #[must_use]
    pub fn voters(&self) -> usize {
        self.etcd.voters()
    }

    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.members.iter().map(|member| member.name.clone()).collect()
    }

    pub(super) fn say(&mut self, line: impl FnOnce() -> String) {
        if self.logging {
            let line = line();
            self.log.push(line);
        }
    }

    /// The last lines of the log.
    #[must_use]
    pub fn story(&self) -> String {
        let skip = self.log.len().saturating_sub(120);
        self.log[skip..].join("\n")
    }

    /// The whole state, for a person.
    #[must_use]
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

    /// Members that are not what is left of those that were replaced because of their node.
    pub fn staying(&self) -> impl Iterator<Item = &SimMember> {
        self.members
            .iter()
            .filter(|member| !(member.deleting && member.place.node.lost_since().is_some()))
    }

    /// It is as it is wanted.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let target = self.spec.replicas as usize;
        if self.ending {
            return self.members.is_empty();
        }
        if target == 0 {
            return self.members.iter().all(|member| member.pod.is_none());
        }
        self.etcd.list.len() == target
            && self.voters() == target
            && self.staying().count() == target
            && self.staying().all(|member| {
                member
                    .pod
                    .as_ref()
                    .is_some_and(|pod| pod.process == SimProcess::Running && pod.voter_label)
            })
    }
}

impl SimMember {
    #[must_use]
    pub fn peer_url(&self) -> String {
        format!("http://{}.c.ns.svc:2380", self.name)
    }
}
