//! Conditions: their types, their reasons, and how one is set.
//!
//! Alerts, scripts and other controllers of users match on these words.

mod names;
mod set;

pub use names::{ConditionType, Reason};
pub use set::{Change, ConditionStatus, NewCondition, find, is_true, remove, set};
