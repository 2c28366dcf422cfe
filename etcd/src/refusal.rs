//! What etcd says when it refuses a call.

/// A refusal that etcd itself spoke: the call has definitely not been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The learner has not caught up with the leader: try again later.
    LearnerNotReady,
    /// The member to promote votes already.
    NotALearner,
    /// `max-learners` is reached on the leader (1 up to etcd 3.5).
    TooManyLearners,
    /// Too few members are connected, or have been for less than 5 s (strict-reconfig-check): try again later.
    UnhealthyCluster,
    /// Too few started members would remain (strict-reconfig-check).
    NotEnoughStarted,
    /// No such member, or it has been removed already.
    MemberNotFound,
    /// A member with this ID is there already.
    MemberExists,
    /// A member with one of these peer URLs is there already.
    PeerUrlExists,
    /// This member knows no leader.
    NoLeader,
    /// The leader's own calls were sent to a follower.
    NotLeader,
    /// Leadership may not move to that member.
    BadTransferee,
    /// The member asked is a learner and serves almost nothing.
    AskedALearner,
    /// The database quota is used up.
    NoSpace,
    /// A CORRUPT alarm stands.
    Corrupt,
    /// The member is far behind in applying entries.
    TooManyRequests,
    /// The member has not come to that revision yet.
    FutureRevision,
    /// That revision has been compacted.
    Compacted,
    /// Credentials are missing, wrong or not sufficient.
    Unauthorized,
    /// This version of etcd does not know the call.
    Unsupported,
    /// The request itself is wrong.
    BadRequest,
}

/// etcd's words (`api/v3rpc/rpctypes/error.go` of 3.5, 3.6 and 3.7), without the prefix `etcdserver: `. The text and
/// not the gRPC code decides: some of these arrive with the code `Unknown` (the server maps them to a client-side
/// error value), and codes changed between 3.5 and 3.7.
const WORDS: &[(&str, Refusal)] = &[
    (
        "can only promote a learner member which is in sync with leader",
        Refusal::LearnerNotReady,
    ),
    ("can only promote a learner member", Refusal::NotALearner),
    ("too many learner members in cluster", Refusal::TooManyLearners),
    ("unhealthy cluster", Refusal::UnhealthyCluster),
    (
        "re-configuration failed due to not enough started members",
        Refusal::NotEnoughStarted,
    ),
    ("member not found", Refusal::MemberNotFound),
    ("member ID already exist", Refusal::MemberExists),
    ("Peer URLs already exists", Refusal::PeerUrlExists),
    ("no leader", Refusal::NoLeader),
    ("not leader", Refusal::NotLeader),
    ("bad leader transferee", Refusal::BadTransferee),
    ("rpc not supported for learner", Refusal::AskedALearner),
    ("mvcc: database space exceeded", Refusal::NoSpace),
    ("corrupt cluster", Refusal::Corrupt),
    ("too many requests", Refusal::TooManyRequests),
    ("mvcc: required revision is a future revision", Refusal::FutureRevision),
    ("mvcc: required revision has been compacted", Refusal::Compacted),
    ("user name is empty", Refusal::Unauthorized),
    ("user name not found", Refusal::Unauthorized),
    (
        "authentication failed, invalid user ID or password",
        Refusal::Unauthorized,
    ),
    ("authentication is not enabled", Refusal::Unauthorized),
    ("permission denied", Refusal::Unauthorized),
    ("invalid auth token", Refusal::Unauthorized),
    ("invalid auth management", Refusal::Unauthorized),
    ("revision of auth store is old", Refusal::Unauthorized),
    ("not capable", Refusal::Unsupported),
    ("given member URLs are invalid", Refusal::BadRequest),
    ("requested lease not found", Refusal::BadRequest),
    ("lease already exists", Refusal::BadRequest),
    ("too large lease TTL", Refusal::BadRequest),
    ("request is too large", Refusal::BadRequest),
    ("cluster ID mismatch", Refusal::BadRequest),
];

impl Refusal {
    /// Is this gRPC message a refusal of etcd's own? Anything else (timeouts, a stopping server, a proxy's words)
    /// says nothing about whether the call was carried out.
    #[must_use]
    pub fn from_message(message: &str) -> Option<Self> {
        let words = message.strip_prefix("etcdserver: ")?;
        WORDS
            .iter()
            .find(|(known, _)| *known == words)
            .map(|(_, refusal)| *refusal)
    }

    /// What a person or the caller does next.
    #[must_use]
    pub const fn next(self) -> &'static str {
        match self {
            Self::LearnerNotReady => "it is promoted once it has caught up",
            Self::UnhealthyCluster => "etcd takes membership changes once its members have been connected for 5 s",
            Self::NoLeader | Self::NotLeader | Self::AskedALearner => "another member is asked",
            Self::TooManyRequests | Self::FutureRevision => "it is asked again once it has applied what it received",
            Self::Compacted => "a newer revision is asked for",
            Self::TooManyLearners => "the learner that is there is promoted or removed first",
            Self::NotEnoughStarted => "start the members that are stopped first",
            Self::NotALearner | Self::MemberNotFound | Self::MemberExists | Self::PeerUrlExists => {
                "the member list is read again"
            }
            Self::BadTransferee => "another voter is chosen",
            Self::NoSpace => "free space: compact, defragment and disarm the alarm, or raise the quota",
            Self::Corrupt => "compare the members' hashes and replace the one in the minority",
            Self::Unauthorized => "check the root credentials",
            Self::Unsupported => "upgrade etcd",
            Self::BadRequest => "this is a defect of the operator: please report it",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_sentence_is_not_taken_for_the_shorter_one() {
        let ready = "etcdserver: can only promote a learner member which is in sync with leader";
        assert_eq!(Refusal::from_message(ready), Some(Refusal::LearnerNotReady));
        assert_eq!(
            Refusal::from_message("etcdserver: can only promote a learner member"),
            Some(Refusal::NotALearner)
        );
    }

    #[test]
    fn what_leaves_the_outcome_open_is_no_refusal() {
        for message in [
            "etcdserver: request timed out",
            "etcdserver: request timed out, possibly due to previous leader failure",
            "etcdserver: request timed out, possibly due to connection lost",
            "etcdserver: request timed out, waiting for the applied index took too long",
            "etcdserver: server stopped",
            "etcdserver: leader changed",
            "etcdserver: request canceled",
            "etcdserver: context deadline exceeded",
            "member promote: unknown error(etcdserver: something)",
            "unhealthy cluster",
            "transport is closing",
            "",
        ] {
            assert_eq!(Refusal::from_message(message), None, "{message:?}");
        }
    }

    #[test]
    fn no_word_of_etcds_is_listed_twice() {
        for (i, (word, _)) in WORDS.iter().enumerate() {
            assert!(WORDS.iter().skip(i + 1).all(|(other, _)| other != word), "{word}");
        }
    }
}
