//! Fewer members: etcd forgets first, then the object goes.

use super::{
    choices, repair,
    step::{Plan, Step},
    view::View,
};

/// Members too many: all that etcd does not list go at once, of the others one. True: a consensus step is in the plan.
pub(super) fn surplus(view: &View, plan: &mut Plan) -> bool {
    let staying = view.staying().count();
    let Some(mut surplus) = staying.checked_sub(view.target()).filter(|surplus| *surplus > 0) else {
        return false;
    };
    let unlisted: Vec<_> = view.staying().filter(|member| member.listed.is_none()).collect();
    if unlisted.is_empty() {
        let victim = choices::victim(view).and_then(|victim| Some((victim, victim.listed_id()?)));
        return victim
            .is_some_and(|(victim, id)| repair::remove(view, &victim.fact.name, id, "it is one too many", plan));
    }
    for member in unlisted.iter().rev() {
        if surplus == 0 {
            break;
        }
        surplus -= 1;
        plan.step(Step::DeleteMember {
            member: member.fact.name.clone(),
            uid: member.fact.uid.clone(),
        });
    }
    false
}
