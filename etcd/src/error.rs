//! What a failed call means: was it carried out, and who can do something about it?

use std::{error::Error, fmt, time::Duration};

use tonic::{Code, ConnectError, Status as Rpc};

use crate::Refusal;

/// The calls of [`crate::Admin`], as messages name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are etcd's own")]
pub enum Call {
    Connect,
    Status,
    ReadBarrier,
    MemberList,
    MemberAdd,
    MemberPromote,
    MemberRemove,
    MoveLeader,
    LeaseGrant,
    LeaseRevoke,
    HashKv,
    AlarmList,
    AlarmDisarm,
}

impl Call {
    /// Does the call change nothing, so that a lost answer leaves no question?
    const fn is_read(self) -> bool {
        match self {
            Self::Connect | Self::Status | Self::ReadBarrier | Self::MemberList | Self::HashKv | Self::AlarmList => {
                true
            }
            Self::MemberAdd
            | Self::MemberPromote
            | Self::MemberRemove
            | Self::MoveLeader
            | Self::LeaseGrant
            | Self::LeaseRevoke
            | Self::AlarmDisarm => false,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Whether a failed call has been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Applied {
    /// Definitely not.
    No,
    /// It may have been, or may still be: read linearizably before anything else.
    Unknown,
}

/// Who can do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// It passes by itself.
    Retry,
    /// A person must act.
    Person,
    /// A defect of ours.
    Bug,
}

/// Why a call of [`crate::Admin`] failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EtcdError {
    /// etcd refused it.
    #[error("etcd at {endpoint} refused {call}: {message}; next: {}", refusal.next())]
    Refused {
        /// The member asked.
        endpoint: String,
        /// What was asked.
        call: Call,
        /// What etcd means.
        refusal: Refusal,
        /// etcd's own words.
        message: String,
    },
    /// No connection came about, so nothing was sent.
    #[error(
        "{call} was not sent, etcd at {endpoint} cannot be reached: {cause}; next: check the Pod and its port 2379"
    )]
    Unreachable {
        /// The member asked.
        endpoint: String,
        /// What was asked.
        call: Call,
        /// Why.
        cause: String,
    },
    /// It was, or may have been, sent, and no answer tells what became of it.
    #[error("{call} to etcd at {endpoint} has no known outcome: {cause}; next: the member list is read again")]
    NoAnswer {
        /// The member asked.
        endpoint: String,
        /// What was asked.
        call: Call,
        /// Why.
        cause: String,
    },
    /// The endpoint is no URL.
    #[error("{endpoint:?} is no URL of an etcd: {cause}; this is a defect of the operator, please report it")]
    Endpoint {
        /// What was given.
        endpoint: String,
        /// Why.
        cause: String,
    },
}

impl EtcdError {
    /// Has the call been carried out?
    #[must_use]
    pub const fn applied(&self) -> Applied {
        match self {
            Self::Refused { .. } | Self::Unreachable { .. } | Self::Endpoint { .. } => Applied::No,
            Self::NoAnswer { call, .. } => {
                if call.is_read() {
                    Applied::No
                } else {
                    Applied::Unknown
                }
            }
        }
    }

    /// Who can do something about it?
    #[must_use]
    pub const fn class(&self) -> Class {
        match self {
            Self::Refused { refusal, .. } => match refusal {
                Refusal::LearnerNotReady
                | Refusal::NotALearner
                | Refusal::TooManyLearners
                | Refusal::UnhealthyCluster
                | Refusal::NotEnoughStarted
                | Refusal::MemberNotFound
                | Refusal::MemberExists
                | Refusal::PeerUrlExists
                | Refusal::NoLeader
                | Refusal::NotLeader
                | Refusal::BadTransferee
                | Refusal::AskedALearner
                | Refusal::TooManyRequests
                | Refusal::FutureRevision
                | Refusal::Compacted => Class::Retry,
                Refusal::NoSpace | Refusal::Corrupt | Refusal::Unauthorized | Refusal::Unsupported => Class::Person,
                Refusal::BadRequest => Class::Bug,
            },
            Self::Unreachable { .. } | Self::NoAnswer { .. } => Class::Retry,
            Self::Endpoint { .. } => Class::Bug,
        }
    }

    /// What etcd meant, if it was etcd that refused.
    #[must_use]
    pub const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(*refusal),
            Self::Unreachable { .. } | Self::NoAnswer { .. } | Self::Endpoint { .. } => None,
        }
    }

    pub(crate) fn timeout(endpoint: &str, call: Call, after: Duration) -> Self {
        Self::NoAnswer {
            endpoint: endpoint.into(),
            call,
            cause: format!("no answer within {after:?}"),
        }
    }

    pub(crate) fn from_client(endpoint: &str, call: Call, error: etcd_client::Error) -> Self {
        use etcd_client::Error as E;
        match error {
            E::GRpcStatus(status) => Self::from_status(endpoint, call, &status),
            // These arise on our side before a request exists.
            error @ (E::InvalidArgs(_) | E::InvalidUri(_) | E::InvalidMetadataValue(_) | E::EndpointsNotManaged) => {
                Self::Endpoint {
                    endpoint: endpoint.into(),
                    cause: error.to_string(),
                }
            }
            error => Self::NoAnswer {
                endpoint: endpoint.into(),
                call,
                cause: cut(&error.to_string()),
            },
        }
    }

    pub(crate) fn from_status(endpoint: &str, call: Call, status: &Rpc) -> Self {
        let endpoint = endpoint.to_owned();
        let message = cut(status.message());
        if let Some(refusal) = Refusal::from_message(&message) {
            return Self::Refused {
                endpoint,
                call,
                refusal,
                message,
            };
        }
        if status.code() == Code::Unimplemented {
            return Self::Refused {
                endpoint,
                call,
                refusal: Refusal::Unsupported,
                message,
            };
        }
        let cause = chain(status);
        if never_connected(status) {
            Self::Unreachable { endpoint, call, cause }
        } else {
            Self::NoAnswer { endpoint, call, cause }
        }
    }
}

/// The connector failed: no byte of the request left.
fn never_connected(status: &Rpc) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// The message, and the last cause behind it, which is the one that helps.
fn chain(status: &Rpc) -> String {
    let mut last = None;
    let mut source = status.source();
    while let Some(error) = source {
        last = Some(error.to_string());
        source = error.source();
    }
    let words = match last {
        Some(cause) if cause != status.message() => format!("{}: {cause}", status.message()),
        Some(_) | None => format!("{}: {}", status.code(), status.message()),
    };
    cut(&words)
}

/// Whoever answers may not be etcd, and what is said ends up in a status and on a terminal: 256 characters, none of
/// them a control character.
fn cut(words: &str) -> String {
    words.chars().filter(|c| !c.is_control()).take(256).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(call: Call, code: Code, message: &str) -> EtcdError {
        EtcdError::from_status("http://10.0.0.1:2379", call, &Rpc::new(code, message))
    }

    /// Code and text as 3.5.35, 3.6.16 and 3.7.3 send them, and what they mean for the step that failed.
    #[test]
    #[allow(clippy::too_many_lines, reason = "one table")]
    fn each_answer_of_etcd_has_its_meaning() {
        use Applied::{No, Unknown};
        use Class::{Bug, Person, Retry};
        type Row = (Code, &'static str, Option<Refusal>, Applied, Class);
        let rows: &[Row] = &[
            (
                Code::FailedPrecondition,
                "etcdserver: can only promote a learner member which is in sync with leader",
                Some(Refusal::LearnerNotReady),
                No,
                Retry,
            ),
            (
                Code::FailedPrecondition,
                "etcdserver: can only promote a learner member",
                Some(Refusal::NotALearner),
                No,
                Retry,
            ),
            (
                Code::FailedPrecondition,
                "etcdserver: too many learner members in cluster",
                Some(Refusal::TooManyLearners),
                No,
                Retry,
            ),
            (
                Code::Unavailable,
                "etcdserver: unhealthy cluster",
                Some(Refusal::UnhealthyCluster),
                No,
                Retry,
            ),
            // Sent with the code Unknown: the server's table maps it to a client-side value.
            (
                Code::Unknown,
                "etcdserver: re-configuration failed due to not enough started members",
                Some(Refusal::NotEnoughStarted),
                No,
                Retry,
            ),
            (
                Code::NotFound,
                "etcdserver: member not found",
                Some(Refusal::MemberNotFound),
                No,
                Retry,
            ),
            (
                Code::FailedPrecondition,
                "etcdserver: Peer URLs already exists",
                Some(Refusal::PeerUrlExists),
                No,
                Retry,
            ),
            (
                Code::FailedPrecondition,
                "etcdserver: member ID already exist",
                Some(Refusal::MemberExists),
                No,
                Retry,
            ),
            (
                Code::Unavailable,
                "etcdserver: no leader",
                Some(Refusal::NoLeader),
                No,
                Retry,
            ),
            (
                Code::FailedPrecondition,
                "etcdserver: not leader",
                Some(Refusal::NotLeader),
                No,
                Retry,
            ),
            (
                Code::FailedPrecondition,
                "etcdserver: bad leader transferee",
                Some(Refusal::BadTransferee),
                No,
                Retry,
            ),
            // 3.5 says Unavailable, 3.7 FailedPrecondition.
            (
                Code::Unavailable,
                "etcdserver: rpc not supported for learner",
                Some(Refusal::AskedALearner),
                No,
                Retry,
            ),
            (
                Code::FailedPrecondition,
                "etcdserver: rpc not supported for learner",
                Some(Refusal::AskedALearner),
                No,
                Retry,
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                Some(Refusal::NoSpace),
                No,
                Person,
            ),
            (
                Code::DataLoss,
                "etcdserver: corrupt cluster",
                Some(Refusal::Corrupt),
                No,
                Person,
            ),
            (
                Code::Unknown,
                "etcdserver: too many requests",
                Some(Refusal::TooManyRequests),
                No,
                Retry,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: user name is empty",
                Some(Refusal::Unauthorized),
                No,
                Person,
            ),
            (
                Code::Unauthenticated,
                "etcdserver: invalid auth token",
                Some(Refusal::Unauthorized),
                No,
                Person,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: given member URLs are invalid",
                Some(Refusal::BadRequest),
                No,
                Bug,
            ),
            (
                Code::Unimplemented,
                "unknown method MemberPromote",
                Some(Refusal::Unsupported),
                No,
                Person,
            ),
            (Code::Unavailable, "etcdserver: request timed out", None, Unknown, Retry),
            (
                Code::Unavailable,
                "etcdserver: request timed out, possibly due to connection lost",
                None,
                Unknown,
                Retry,
            ),
            (
                Code::Unavailable,
                "etcdserver: request timed out, possibly due to previous leader failure",
                None,
                Unknown,
                Retry,
            ),
            (Code::Unavailable, "etcdserver: server stopped", None, Unknown, Retry),
            (Code::Unavailable, "etcdserver: leader changed", None, Unknown, Retry),
            (
                Code::DeadlineExceeded,
                "context deadline exceeded",
                None,
                Unknown,
                Retry,
            ),
            (
                Code::Unknown,
                "member promote: unknown error(etcdserver: no leader)",
                None,
                Unknown,
                Retry,
            ),
            // Another program's words in front of etcd.
            (Code::FailedPrecondition, "upstream unavailable", None, Unknown, Retry),
            (
                Code::ResourceExhausted,
                "grpc: received message larger than max",
                None,
                Unknown,
                Retry,
            ),
        ];
        for (code, message, refusal, applied, class) in rows {
            let error = answer(Call::MemberAdd, *code, message);
            assert_eq!(error.refusal(), *refusal, "{error}");
            assert_eq!(error.applied(), *applied, "{error}");
            assert_eq!(error.class(), *class, "{error}");
        }
    }

    #[test]
    fn words_of_whoever_answers_are_cut_before_they_go_anywhere() {
        let flood = format!("\u{1b}[2Jetcd{}", "x".repeat(50_000));
        for code in [Code::Unimplemented, Code::Unavailable, Code::Internal] {
            let words = answer(Call::MemberList, code, &flood).to_string();
            assert!(
                words.len() < 600 && words.contains("etcdxxx") && !words.contains('\u{1b}'),
                "{words}"
            );
        }
    }

    #[test]
    fn a_lost_answer_to_a_read_leaves_no_question() {
        let error = EtcdError::timeout("http://10.0.0.1:2379", Call::MemberList, Duration::from_secs(2));
        assert_eq!(error.applied(), Applied::No);
        let error = EtcdError::timeout("http://10.0.0.1:2379", Call::MemberRemove, Duration::from_secs(2));
        assert_eq!(error.applied(), Applied::Unknown);
    }
}
