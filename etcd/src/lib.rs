//! A typed admin client for etcd: membership, status, leadership, and what an error means for the next step.
//!
//! The operator changes membership one step at a time and never starts a step while the outcome of the last one is
//! unknown. So the important part here is not the calls but [`EtcdError::applied`]: whether a failed call may have
//! been carried out all the same.

mod admin;
mod error;
mod id;
mod refusal;
#[cfg(feature = "testing")]
pub mod testing;

pub use admin::{Access, Admin, Alarm, KeyHash, Member, MemberList, Status};
pub use error::{Applied, Call, Class, EtcdError};
pub use id::{ClusterId, MemberId, ParseIdError, cluster_id, member_id};
pub use refusal::Refusal;
