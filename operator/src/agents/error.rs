//! Why a call to an agent failed.

use tonic::{Code, Status};

use super::MemberKey;

/// Why a call to an agent failed, and whether it may have been carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The link is not up: nothing was sent.
    #[error("nothing was sent to the agent of {member}: its link is not up; next: it is sent once the link is")]
    NotConnected {
        /// Whose agent.
        member: MemberKey,
    },
    /// The agent said no: the order has not been taken.
    #[error("the agent of {member} refused {call} ({code:?}): {message}; next: its report is read again")]
    Refused {
        /// Whose agent.
        member: MemberKey,
        /// The call.
        call: &'static str,
        /// gRPC code.
        code: Code,
        /// The agent's words, cut.
        message: String,
    },
    /// No answer came: the order may have been taken. Its number in the next report tells.
    #[error("the agent of {member} has not answered {call}: {cause}; next: its report tells whether it was taken")]
    NoAnswer {
        /// Whose agent.
        member: MemberKey,
        /// The call.
        call: &'static str,
        /// Why.
        cause: String,
    },
    /// The answer is not one that this member's agent may give.
    #[error("the answer of the agent of {member} is not used: {why}; next: replace its Pod if this stays")]
    Unusable {
        /// Whose agent.
        member: MemberKey,
        /// Why.
        why: String,
    },
}

impl LinkError {
    /// May the order have been taken all the same?
    #[must_use]
    pub const fn may_have_been_taken(&self) -> bool {
        match self {
            Self::NoAnswer { .. } => true,
            Self::NotConnected { .. } | Self::Refused { .. } | Self::Unusable { .. } => false,
        }
    }

    /// These codes are what an agent answers on purpose; all others come about on the way.
    pub(super) fn from_status(member: &MemberKey, call: &'static str, status: &Status) -> Self {
        let member = member.clone();
        match status.code() {
            code @ (Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::Unimplemented
            | Code::Unauthenticated) => Self::Refused {
                member,
                call,
                code,
                message: super::sanitize::text(status.message()),
            },
            code @ (Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::ResourceExhausted
            | Code::Aborted
            | Code::OutOfRange
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss) => {
                let cause = format!("{code:?}: {}", super::sanitize::text(status.message()));
                Self::NoAnswer { member, call, cause }
            }
        }
    }
}
