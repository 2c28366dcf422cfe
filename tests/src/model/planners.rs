//! Who plans: the real planner, or one with a defect, which a search must catch.

use operator::plan::{
    self,
    facts::{Facts, MemberList},
    step::Plan,
};

/// Decides what to do.
pub trait Planner: Send + Sync {
    /// The plan; `last` is the list that was read before this one, for planners that remember it.
    fn plan(&self, facts: &Facts, last: Option<&MemberList>) -> Plan;

    /// It keeps the list that was read last.
    fn remembers(&self) -> bool {
        false
    }

    /// It hears everybody it counts on anew before a change of membership.
    fn confirms(&self) -> bool {
        true
    }
}

/// The planner of the operator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Real;

impl Planner for Real {
    fn plan(&self, facts: &Facts, _last: Option<&MemberList>) -> Plan {
        plan::plan(facts)
    }
}
