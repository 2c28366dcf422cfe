//! Types and reasons of conditions.

use std::fmt;

/// Declares an enum whose variants are written as they are named.
macro_rules! words {
    ($(#[$enum_doc:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident,)+ }) => {
        $(#[$enum_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// Every word.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as it stands in a condition.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// `type` of a condition.
    ConditionType {
        /// Cluster: a quorum serves.
        Available,
        /// Cluster: work towards the wanted state is under way.
        Progressing,
        /// Cluster: it serves and is not whole.
        Degraded,
        /// Member, snapshot, policy, recovery: it is as wanted.
        Ready,
        /// Member: it runs another version than it should.
        VersionDrifted,
        /// Defragmentation: the rule has been looked at for every member.
        DefragChecked,
        /// Cluster: the quorum is lost and a person, or the policy, has to decide.
        RecoveryPending,
        /// Cluster: the wanted version cannot be rolled out.
        UpgradeBlocked,
        /// Cluster: scheduled snapshots fail.
        BackupFailing,
        /// Cluster: a certificate is about to expire and nothing renews it.
        CertificateExpiring,
        /// Cluster: the clocks of members differ.
        ClockSkew,
        /// Cluster, member: a data directory of another cluster was found and is held.
        ForeignData,
        /// Cluster: Pods without an agent, and what that switches off.
        AgentsMissing,
        /// Cluster, member: the link to an agent is blocked.
        AgentUnreachable,
        /// Cluster, member: an agent is older than this operator serves.
        AgentTooOld,
        /// Cluster: an image fails on the first member that got it, and no other one gets it.
        RolloutHalted,
        /// Cluster: members hold different data, or etcd says that they do.
        DataDiverged,
        /// Cluster, member: a data volume is full.
        DiskFull,
        /// Cluster: the database has reached its quota, or is about to.
        QuotaPressure,
        /// Cluster: volumes do not grow as the spec asks.
        VolumeExpansionBlocked,
        /// Any kind: the spec uses a field that is not acted on yet.
        NotImplemented,
        /// Cluster: the operator keeps its hands off because a person asked for it.
        Reconcile,
    }
}

words! {
    /// `reason` of a condition.
    Reason {
        /// Available, Degraded: every voter is healthy.
        QuorumHealthy,
        /// Available: a quorum serves.
        QuorumAvailable,
        /// Available: the cluster ID is known and recorded.
        ClusterDiscovered,
        /// Available, Degraded: fewer voters are healthy than a quorum needs.
        QuorumLost,
        /// No member is left, and no disk either.
        AllMembersLost,
        /// The cluster is paused: `replicas` is 0.
        Paused,
        /// Available: no member answers.
        ClusterUnreachable,
        /// Available, Progressing: the first member cannot start.
        BootstrapFailed,
        /// Available, Progressing: no progress until the deadline.
        DeadlineExceeded,
        /// Available: the spec asks for cert-manager and its kinds are not there.
        CertManagerNotInstalled,
        /// Available: etcd asks for credentials that the spec does not name.
        AuthRequiredNotConfigured,
        /// Available: etcd refuses the credentials.
        AuthCredentialsRejected,
        /// Progressing: the first target was taken up.
        InitialSnapshot,
        /// Progressing: a new target was taken up.
        SpecChanged,
        /// Progressing: the first member is not ready yet.
        WaitingForSeed,
        /// Progressing: work goes on after a deadline was missed.
        RetryAfterDeadline,
        /// Progressing: the wanted state is reached.
        Reconciled,
        /// Degraded: some members are not healthy.
        MembersUnhealthy,
        /// Member Ready: its Pod is ready and it is a member.
        PodReady,
        /// Member Ready: its Pod is not ready.
        PodNotReady,
        /// Member Ready: its ID is not known yet.
        DiscoveringMemberID,
        /// Member `VersionDrifted`: it runs another version.
        VersionMismatch,
        /// Member `VersionDrifted`: it runs the wanted version.
        VersionMatched,
        /// Snapshot Ready: it is stored.
        SnapshotStored,
        /// Snapshot Ready: its Job was made.
        JobCreated,
        /// Snapshot Ready: its Job runs.
        JobRunning,
        /// Snapshot Ready: an agent sends it.
        Streaming,
        /// Snapshot Ready: its Job failed.
        JobFailed,
        /// The named cluster is not there.
        ClusterNotFound,
        /// Reconcile: paused by the cluster's annotation.
        ReconcilePaused,
        /// Reconcile: not paused.
        Reconciling,
        /// The spec uses a field that is not acted on yet.
        NotImplemented,
        /// Every field of the spec is acted on.
        Implemented,
        /// The name of the cluster cannot be used for its Services.
        NameInvalid,
        /// An object that is needed belongs to another cluster or to nobody.
        NameTaken,
        /// The wanted version of etcd is not served.
        VersionNotSupported,
        /// The wanted version cannot be reached from the running one in one step.
        UpgradePathInvalid,
        /// A step of the upgrade failed and the rest waits.
        UpgradeHalted,
        /// A person has to decide how the quorum is recovered.
        WaitingForDecision,
        /// A recovery is being carried out.
        RecoveryRunning,
        /// Recovery Ready: the new history serves with all its members.
        RecoveryComplete,
        /// Recovery Ready: it is not carried out.
        RecoveryRefused,
        /// Recovery Ready: members are neither fenced nor provably gone.
        WaitingForMembers,
        /// Recovery Ready: the volume has too little room.
        NeedsSpace,
        /// A person stopped the process of members by the cluster's annotation.
        Fenced,
        /// Links to agents are refused or dropped on their way.
        LinkBlocked,
        /// The link to every agent is up.
        LinkUp,
        /// An agent is older than the two minor versions before this operator's.
        VersionTooOld,
        /// A new agent image does not come up.
        AgentImageFails,
        /// A Pod has no agent.
        PodWithoutAgent,
        /// A data directory belongs to another cluster, member or history.
        DirectoryForeign,
        /// Members hold other data than the majority, and are replaced.
        MinorityDiffers,
        /// Members hold different data, and nobody can tell whose are right.
        NoMajority,
        /// etcd has raised a CORRUPT alarm.
        CorruptAlarm,
        /// Nothing can be written any more.
        NoSpaceLeft,
        /// No file can be made any more.
        NoInodesLeft,
        /// etcd has raised a NOSPACE alarm.
        NoSpaceAlarm,
        /// The database is about to reach its quota.
        QuotaNearlyReached,
        /// Kubernetes refuses to let a claim grow.
        ExpansionRefused,
        /// Kubernetes refuses an object that is needed: a quota, an admission rule, a missing permission.
        CreateRefused,
        /// What is said by the type is not so.
        AsExpected,
    }
}
