//! What a plan consists of: so specific that whoever carries it out makes no choice.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    divergence::Asked,
    facts::{Binding, Id, Seed, Version},
    volumes::Size,
};

pub use super::{
    order::{Order, Peer},
    wait::{Wait, WaitReason},
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
