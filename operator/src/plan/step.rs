//! What a plan consists of: so specific that whoever carries it out makes no choice.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    divergence::Asked,
    facts::{Binding, Id, Options, Seed, Version},
    volumes::Size,
};

/// Nothing tells when an object of somebody else goes away.
const NAME_AGAIN: Duration = Duration::from_secs(10);

/// What to do now, and when to look again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Steps. Those of one chain are carried out in order, and a failed one ends its chain; chains are independent of
    /// each other and run at the same time. At most one chain holds a consensus step, and it holds one.
    pub chains: Vec<Vec<Step>>,
    /// What is being waited for.
    pub waits: Vec<Wait>,
    /// Look again after this long, though nothing was heard; the shortest of all wishes.
    pub again: Option<Duration>,
}

impl Plan {
    /// Adds a chain of one step.
    pub fn step(&mut self, step: Step) {
        self.chains.push(vec![step]);
    }

    /// Adds a chain, when there is anything in it.
    pub fn chain(&mut self, steps: Vec<Step>) {
        if !steps.is_empty() {
            self.chains.push(steps);
        }
    }

    /// Adds something that is being waited for.
    pub fn wait(&mut self, reason: WaitReason, member: Option<&str>, message: impl Into<String>) {
        if reason == WaitReason::NameTaken {
            self.look_again(NAME_AGAIN);
        }
        self.waits.push(Wait {
            reason,
            member: member.map(str::to_owned),
            message: message.into(),
        });
    }

    /// Asks for another look after at most `delay`.
    pub fn look_again(&mut self, delay: Duration) {
        self.again = Some(self.again.map_or(delay, |earlier| earlier.min(delay)));
    }

    /// Adds everything of another plan.
    pub fn absorb(&mut self, other: Self) {
        self.chains.extend(other.chains);
        self.waits.extend(other.waits);
        if let Some(delay) = other.again {
            self.look_again(delay);
        }
    }

    /// All steps.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.chains.iter().flatten()
    }

    /// Is there a step that changes membership or leadership?
    #[must_use]
    pub fn has_consensus_step(&self) -> bool {
        self.steps().any(Step::is_consensus)
    }
}

/// Something that is being waited for; a person reads it in the conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What kind of thing.
    pub reason: WaitReason,
    /// On which member.
    pub member: Option<String>,
    /// What was seen, and what can be done.
    pub message: String,
}

/// Kinds of things to wait for, the most telling first: a summary shows the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitReason {
    /// The spec cannot be worked on.
    InvalidSpec,
    /// Something of that name belongs to somebody else.
    NameTaken,
    /// The operator lacks a permission.
    NotPermitted,
    /// A step fails again and again.
    StepFailed,
    /// An image cannot be pulled.
    ImagePull,
    /// No node takes the Pod.
    Unschedulable,
    /// The volume is not there yet.
    VolumePending,
    /// Other trouble with a Pod.
    PodTrouble,
    /// A new agent image fails, and no other member gets it.
    RolloutHalted,
    /// Its node or its volume is gone.
    NodeLost,
    /// The agent cannot be reached.
    AgentUnreachable,
    /// A volume is full.
    DiskFull,
    /// Members hold different data.
    Diverged,
    /// etcd has raised an alarm.
    Alarm,
    /// A recovery of the quorum is under way, or waits for something.
    Recovery,
    /// A data directory needs a person, or a quorum.
    DataDirectory,
    /// No member is left that has the data.
    MembersLost,
    /// No quorum stands, so nothing may be changed.
    Quorum,
    /// Somebody else has put a member into etcd's list.
    Stranger,
    /// A volume cannot grow.
    VolumeGrowth,
    /// The member list could not be read.
    MemberList,
    /// etcd refused a call for now.
    Refused,
    /// The Pod is on its way.
    PodStarting,
    /// The name cannot be resolved yet.
    Name,
    /// etcd is starting.
    EtcdStarting,
    /// A learner is catching up.
    CatchingUp,
    /// An agent's image is to be changed.
    AgentImage,
    /// Something is on its way out.
    Ending,
    /// An object was taken out of our hands.
    HandsOff,
}

impl WaitReason {
    /// It is said also when nothing is left to be done by us.
    #[must_use]
    pub fn is_trouble(self) -> bool {
        matches!(self, Self::DiskFull | Self::Diverged | Self::Alarm | Self::VolumeGrowth)
    }

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidSpec => "InvalidSpec",
            Self::NameTaken => "NameTaken",
            Self::NotPermitted => "NotPermitted",
            Self::StepFailed => "StepFailed",
            Self::ImagePull => "ImagePull",
            Self::Unschedulable => "Unschedulable",
            Self::VolumePending => "VolumePending",
            Self::PodTrouble => "PodTrouble",
            Self::RolloutHalted => "RolloutHalted",
            Self::NodeLost => "NodeLost",
            Self::AgentUnreachable => "AgentUnreachable",
            Self::DiskFull => "DiskFull",
            Self::Diverged => "Diverged",
            Self::Alarm => "Alarm",
            Self::VolumeGrowth => "VolumeGrowth",
            Self::Recovery => "Recovery",
            Self::DataDirectory => "DataDirectory",
            Self::MembersLost => "MembersLost",
            Self::Quorum => "Quorum",
            Self::Stranger => "Stranger",
            Self::MemberList => "MemberList",
            Self::Refused => "Refused",
            Self::PodStarting => "PodStarting",
            Self::Name => "Name",
            Self::EtcdStarting => "EtcdStarting",
            Self::CatchingUp => "CatchingUp",
            Self::AgentImage => "AgentImage",
            Self::Ending => "Ending",
            Self::HandsOff => "HandsOff",
        }
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Record token, incarnation, target and deadline in the cluster's status, before anything is made of them.
    Latch {
        /// The token.
        token: String,
        /// The incarnation.
        incarnation: u64,
        /// `status.progressDeadline`.
        deadline: Timestamp,
        /// Keep the recorded version although the spec names another one (a version is rolled out, not latched).
        keep_version: Option<Version>,
    },
    /// Record a new incarnation, with no seed: the last one's seed is lost and has never served.
    NewIncarnation {
        /// The token.
        token: String,
        /// The incarnation.
        incarnation: u64,
    },
    /// Record who may start the cluster.
    RecordSeed {
        /// The seed.
        seed: Seed,
    },
    /// Record etcd's cluster ID: the cluster is formed.
    RecordClusterId {
        /// The ID.
        id: Id,
    },
    /// Record in a recovery what it has chosen, before anything is made of it.
    RecordRecovery {
        /// Its name.
        recovery: String,
        /// Its UID.
        uid: String,
        /// The member whose data are gone on with.
        member: String,
        /// The incarnation that it makes.
        incarnation: u64,
    },
    /// Record a new history: its incarnation, who begins it on which directory, and the ID that etcd will have.
    OpenHistory {
        /// The token.
        token: String,
        /// The incarnation.
        incarnation: u64,
        /// Who begins it.
        seed: Seed,
        /// Computed.
        cluster_id: Id,
    },
    /// Write the decision that the policy makes: an `EtcdRecovery` from the best member.
    CreateRecovery {
        /// Its name.
        recovery: String,
    },
    /// Set or take off the cluster's label of this Pod; the voter's goes with it.
    ShowPod {
        /// The member.
        member: String,
        /// UID of the Pod.
        uid: String,
        /// Whether Services may lead to it.
        shown: bool,
    },
    /// Make member objects, if those that exist live are exactly `known`.
    CreateMembers {
        /// How many.
        count: usize,
        /// Names of all members that exist, those being deleted too.
        known: Vec<String>,
    },
    /// Set `spec.bootstrap` of a member.
    MarkBootstrap {
        /// The member.
        member: String,
    },
    /// Set `spec.dormant` of a member.
    SetDormant {
        /// The member.
        member: String,
        /// Whether its Pod is to go.
        dormant: bool,
    },
    /// Set `spec.version` of a member that has never started.
    SetVersion {
        /// The member.
        member: String,
        /// The version.
        version: Version,
    },
    /// Delete a member object that etcd does not list (any more).
    DeleteMember {
        /// The member.
        member: String,
        /// Its UID.
        uid: String,
    },
    /// Put our finalizer on a member that lives without it.
    EnsureFinalizer {
        /// The member.
        member: String,
        /// Its UID.
        uid: String,
    },
    /// Keep the claim of a member whose object goes: it is the member's no more, and is labelled as retained.
    RetainClaim {
        /// The member.
        member: String,
    },
    /// Take our finalizer off a member.
    ReleaseMember {
        /// The member.
        member: String,
        /// Its UID.
        uid: String,
    },
    /// See to the Secret with the agent's certificate.
    EnsureAgentIdentity {
        /// The member.
        member: String,
    },
    /// Make the claim.
    CreateClaim {
        /// The member.
        member: String,
    },
    /// Ask for a larger volume: in the member's spec, and in its claim when there is one.
    GrowVolume {
        /// The member.
        member: String,
        /// The size.
        size: Size,
    },
    /// Make the Pod.
    CreatePod {
        /// The member.
        member: String,
        /// It comes back as a voter, with its data.
        voter: bool,
    },
    /// Delete this Pod.
    DeletePod {
        /// The member.
        member: String,
        /// UID of the Pod.
        uid: String,
    },
    /// Patch the image of the etcd container.
    SetPodImage {
        /// The member.
        member: String,
        /// UID of the Pod.
        uid: String,
        /// The version in its tag.
        version: Version,
    },
    /// Patch the image of the agent, and of the init container that installs the same binary; etcd runs on.
    SetAgentImage {
        /// The member.
        member: String,
        /// UID of the Pod.
        uid: String,
        /// The image.
        image: String,
    },
    /// Set or take off the voter's label of this Pod.
    LabelPod {
        /// The member.
        member: String,
        /// UID of the Pod.
        uid: String,
        /// Whether it votes.
        voter: bool,
    },
    /// Make or correct the headless Service.
    ApplyHeadlessService,
    /// Make or correct the client Service.
    ApplyClientService,
    /// Make or correct the `PodDisruptionBudget`.
    ApplyBudget {
        /// Voters.
        voters: u32,
        /// The target.
        target: u32,
    },
    /// Delete the `PodDisruptionBudget`.
    DeleteBudget,
    /// Record which ID may start on which directory, and the number of the directive about to be sent.
    Bind {
        /// The member.
        member: String,
        /// The binding; `None` leaves it as it is.
        binding: Option<Binding>,
        /// The number.
        directive: u64,
    },
    /// Send an order to an agent.
    Direct {
        /// The member.
        member: String,
        /// The number; recorded before.
        number: u64,
        /// The directory it is meant for; empty when it starts nothing.
        nonce: String,
        /// The order.
        order: Order,
    },
    /// Ask these voters for a hash over their data, one after the other, the leader first. It goes on after the pass.
    CompareHashes {
        /// Whom.
        asked: Vec<Asked>,
    },
    /// Take back every CORRUPT alarm.
    DisarmCorrupt {
        /// Voter to ask.
        via: String,
    },
    /// A raft write that changes no key and no revision, so that a joiner publishes itself.
    Nudge {
        /// Voter to ask.
        via: String,
        /// The joiner.
        member: String,
    },
    /// Consensus: admit a learner.
    AddLearner {
        /// Voter to ask.
        via: String,
        /// The member.
        member: String,
        /// Its peer URL.
        peer_url: String,
    },
    /// Consensus: make a learner vote.
    Promote {
        /// Voter to ask.
        via: String,
        /// The member.
        member: String,
        /// Its ID.
        id: Id,
    },
    /// Consensus: remove a member.
    Remove {
        /// Voter to ask.
        via: String,
        /// The member; empty when no object of ours stands for it.
        member: String,
        /// Its ID.
        id: Id,
    },
    /// Consensus: hand leadership over.
    MoveLeader {
        /// The leader.
        via: String,
        /// The member to lead.
        member: String,
        /// Its ID.
        id: Id,
    },
}

impl Step {
    /// Does it change membership or leadership?
    #[must_use]
    pub fn is_consensus(&self) -> bool {
        matches!(
            self,
            Self::AddLearner { .. } | Self::Promote { .. } | Self::Remove { .. } | Self::MoveLeader { .. }
        )
    }

    /// Is it the same change? Who is asked for it makes no difference.
    #[must_use]
    pub fn is_same_change(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::AddLearner { peer_url: one, .. }, Self::AddLearner { peer_url: other, .. }) => one == other,
            (Self::Promote { id: one, .. }, Self::Promote { id: other, .. })
            | (Self::Remove { id: one, .. }, Self::Remove { id: other, .. })
            | (Self::MoveLeader { id: one, .. }, Self::MoveLeader { id: other, .. }) => one == other,
            _ => false,
        }
    }

    /// A look at something that is most probably as it should be.
    #[must_use]
    pub fn is_upkeep(&self) -> bool {
        matches!(self, Self::EnsureAgentIdentity { .. } | Self::CompareHashes { .. })
    }

    /// Its kind, for logs and metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Latch { .. } => "Latch",
            Self::NewIncarnation { .. } => "NewIncarnation",
            Self::RecordRecovery { .. } => "RecordRecovery",
            Self::OpenHistory { .. } => "OpenHistory",
            Self::CreateRecovery { .. } => "CreateRecovery",
            Self::ShowPod { .. } => "ShowPod",
            Self::RecordSeed { .. } => "RecordSeed",
            Self::RecordClusterId { .. } => "RecordClusterId",
            Self::CreateMembers { .. } => "CreateMembers",
            Self::MarkBootstrap { .. } => "MarkBootstrap",
            Self::SetDormant { .. } => "SetDormant",
            Self::SetVersion { .. } => "SetVersion",
            Self::DeleteMember { .. } => "DeleteMember",
            Self::EnsureFinalizer { .. } => "EnsureFinalizer",
            Self::RetainClaim { .. } => "RetainClaim",
            Self::ReleaseMember { .. } => "ReleaseMember",
            Self::EnsureAgentIdentity { .. } => "EnsureAgentIdentity",
            Self::CreateClaim { .. } => "CreateClaim",
            Self::GrowVolume { .. } => "GrowVolume",
            Self::CreatePod { .. } => "CreatePod",
            Self::DeletePod { .. } => "DeletePod",
            Self::SetPodImage { .. } => "SetPodImage",
            Self::SetAgentImage { .. } => "SetAgentImage",
            Self::LabelPod { .. } => "LabelPod",
            Self::ApplyHeadlessService => "ApplyHeadlessService",
            Self::ApplyClientService => "ApplyClientService",
            Self::ApplyBudget { .. } => "ApplyBudget",
            Self::DeleteBudget => "DeleteBudget",
            Self::Bind { .. } => "Bind",
            Self::Direct { .. } => "Direct",
            Self::CompareHashes { .. } => "CompareHashes",
            Self::DisarmCorrupt { .. } => "DisarmCorrupt",
            Self::Nudge { .. } => "Nudge",
            Self::AddLearner { .. } => "AddLearner",
            Self::Promote { .. } => "Promote",
            Self::Remove { .. } => "Remove",
            Self::MoveLeader { .. } => "MoveLeader",
        }
    }

    /// The member it is about.
    #[must_use]
    pub fn member(&self) -> Option<&str> {
        match self {
            Self::MarkBootstrap { member }
            | Self::SetDormant { member, .. }
            | Self::SetVersion { member, .. }
            | Self::DeleteMember { member, .. }
            | Self::EnsureFinalizer { member, .. }
            | Self::RetainClaim { member }
            | Self::ReleaseMember { member, .. }
            | Self::EnsureAgentIdentity { member }
            | Self::CreateClaim { member }
            | Self::GrowVolume { member, .. }
            | Self::CreatePod { member, .. }
            | Self::DeletePod { member, .. }
            | Self::SetPodImage { member, .. }
            | Self::SetAgentImage { member, .. }
            | Self::LabelPod { member, .. }
            | Self::ShowPod { member, .. }
            | Self::RecordRecovery { member, .. }
            | Self::Bind { member, .. }
            | Self::Direct { member, .. }
            | Self::Nudge { member, .. }
            | Self::AddLearner { member, .. }
            | Self::Promote { member, .. }
            | Self::Remove { member, .. }
            | Self::MoveLeader { member, .. } => Some(member),
            Self::RecordSeed { seed } | Self::OpenHistory { seed, .. } => Some(&seed.member),
            Self::Latch { .. }
            | Self::NewIncarnation { .. }
            | Self::CreateRecovery { .. }
            | Self::RecordClusterId { .. }
            | Self::CreateMembers { .. }
            | Self::CompareHashes { .. }
            | Self::DisarmCorrupt { .. }
            | Self::ApplyHeadlessService
            | Self::ApplyClientService
            | Self::ApplyBudget { .. }
            | Self::DeleteBudget => None,
        }
    }
}

/// An order to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Start a new cluster.
    Seed {
        /// Token of the incarnation.
        token: String,
        /// The incarnation.
        incarnation: u64,
        /// Computed.
        member_id: Id,
        /// Computed.
        cluster_id: Id,
        /// Options of etcd.
        options: Options,
    },
    /// Join as the learner that was admitted.
    Join {
        /// Token of the incarnation.
        token: String,
        /// The incarnation.
        incarnation: u64,
        /// From etcd's member list.
        member_id: Id,
        /// From etcd's member list.
        cluster_id: Id,
        /// The whole member list.
        members: Vec<Peer>,
        /// Options of etcd.
        options: Options,
    },
    /// Lift a hold; confirm a directory that has no identity recorded.
    Resume {
        /// Token of the incarnation.
        token: String,
        /// The incarnation.
        incarnation: u64,
        /// The member's ID.
        member_id: Id,
        /// The cluster's ID.
        cluster_id: Id,
    },
    /// Set the data directory of a removed member aside.
    Quarantine {
        /// The incarnation.
        incarnation: u64,
        /// The ID that etcd no longer lists.
        removed: Id,
    },
    /// Stop etcd and keep it stopped.
    Fence {
        /// The incarnation.
        incarnation: u64,
        /// For people.
        reason: String,
    },
    /// Lift a fence or a hold.
    Lift {
        /// The incarnation.
        incarnation: u64,
    },
    /// Make a new history of the directory.
    Recover {
        /// Token of the new history.
        token: String,
        /// Its incarnation.
        incarnation: u64,
        /// Computed.
        member_id: Id,
        /// Computed.
        cluster_id: Id,
        /// Which directory it will be.
        new_nonce: String,
        /// Options of etcd.
        options: Options,
    },
}

impl Order {
    /// Its name.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Seed { .. } => "Seed",
            Self::Join { .. } => "Join",
            Self::Resume { .. } => "Resume",
            Self::Quarantine { .. } => "Quarantine",
            Self::Fence { .. } => "Fence",
            Self::Lift { .. } => "Lift",
            Self::Recover { .. } => "Recover",
        }
    }
}

/// One entry of `initial-cluster`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Name of the member; of one that has not started yet, the name it will have, when we know it.
    pub name: String,
    /// Its ID.
    pub id: Id,
    /// Its peer URLs.
    pub peer_urls: Vec<String>,
}
