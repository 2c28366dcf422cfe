//! What a plan waits for.

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
