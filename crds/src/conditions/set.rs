//! Reading and setting conditions in a status.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::names::{ConditionType, Reason};

/// `status` of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionStatus {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// It is not known.
    Unknown,
}

impl ConditionStatus {
    /// The word as it stands in a condition.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(is_so: bool) -> Self {
        if is_so { Self::True } else { Self::False }
    }
}

/// A condition as it should be from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition {
    /// Which condition.
    pub type_: ConditionType,
    /// Whether it is so.
    pub status: ConditionStatus,
    /// Why, in one word.
    pub reason: Reason,
    /// Why, in a sentence: what was seen, on which object, and what a person can do.
    pub message: String,
    /// `metadata.generation` that this was concluded from.
    pub observed_generation: Option<i64>,
}

/// What setting a condition changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing: nothing has to be written.
    None,
    /// Message or generation only.
    Detail,
    /// Status or reason, or the condition is new: worth an event.
    Transition,
}

/// Sets one condition and leaves all others, also those of other controllers, as they are.
/// `lastTransitionTime` moves to `now` only when the status changes, as Kubernetes' API conventions ask.
pub fn set(conditions: &mut Vec<Condition>, new: NewCondition, now: Timestamp) -> Change {
    let status = new.status.as_str();
    let reason = new.reason.as_str();
    let Some(old) = conditions
        .iter_mut()
        .find(|condition| condition.type_ == new.type_.as_str())
    else {
        conditions.push(Condition {
            type_: new.type_.as_str().to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: new.message,
            observed_generation: new.observed_generation,
            last_transition_time: Time(now),
        });
        return Change::Transition;
    };
    let change = if old.status != status || old.reason != reason {
        Change::Transition
    } else if old.message != new.message || old.observed_generation != new.observed_generation {
        Change::Detail
    } else {
        return Change::None;
    };
    if old.status != status {
        old.last_transition_time = Time(now);
    }
    status.clone_into(&mut old.status);
    reason.clone_into(&mut old.reason);
    old.message = new.message;
    old.observed_generation = new.observed_generation;
    change
}

/// The condition of `type_`, if there is one.
#[must_use]
pub fn find(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == type_.as_str())
}

/// Whether the condition of `type_` is there and `True`.
#[must_use]
pub fn is_true(conditions: &[Condition], type_: ConditionType) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == ConditionStatus::True.as_str())
}

/// Takes the condition of `type_` away; says whether it was there.
pub fn remove(conditions: &mut Vec<Condition>, type_: ConditionType) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_.as_str());
    conditions.len() != before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn available(status: ConditionStatus, reason: Reason, message: &str) -> NewCondition {
        NewCondition {
            type_: ConditionType::Available,
            status,
            reason,
            message: message.into(),
            observed_generation: Some(1),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_time_of_transition_moves_with_the_status_only() {
        let mut conditions = Vec::new();
        let healthy = available(ConditionStatus::True, Reason::QuorumHealthy, "3 of 3");
        assert_eq!(set(&mut conditions, healthy.clone(), at(1)), Change::Transition);
        assert_eq!(set(&mut conditions, healthy, at(2)), Change::None);
        let fewer = available(ConditionStatus::True, Reason::QuorumAvailable, "2 of 3");
        assert_eq!(set(&mut conditions, fewer, at(3)), Change::Transition);
        assert_eq!(conditions[0].last_transition_time, Time(at(1)));
        let lost = available(ConditionStatus::False, Reason::QuorumLost, "1 of 3");
        assert_eq!(set(&mut conditions, lost, at(4)), Change::Transition);
        assert_eq!(conditions[0].last_transition_time, Time(at(4)));
    }

    #[test]
    fn a_new_message_alone_is_a_detail() {
        let mut conditions = Vec::new();
        set(
            &mut conditions,
            available(ConditionStatus::False, Reason::QuorumLost, "1 of 3"),
            at(1),
        );
        let told = set(
            &mut conditions,
            available(ConditionStatus::False, Reason::QuorumLost, "0 of 3"),
            at(2),
        );
        assert_eq!(told, Change::Detail);
        assert_eq!(conditions[0].message, "0 of 3");
    }

    #[test]
    fn conditions_of_others_are_left_alone() {
        let foreign = Condition {
            type_: "example.com/Approved".into(),
            status: "True".into(),
            reason: "Approved".into(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(at(0)),
        };
        let mut conditions = vec![foreign.clone()];
        set(
            &mut conditions,
            available(ConditionStatus::True, Reason::QuorumHealthy, ""),
            at(1),
        );
        assert!(is_true(&conditions, ConditionType::Available));
        assert!(remove(&mut conditions, ConditionType::Available));
        assert!(!remove(&mut conditions, ConditionType::Available));
        assert_eq!(conditions, [foreign]);
    }

    #[test]
    fn every_reason_is_a_word_that_the_api_server_accepts() {
        for reason in Reason::ALL {
            assert!(reason.as_str().chars().all(|c| c.is_ascii_alphanumeric()), "{reason}");
        }
    }
}
