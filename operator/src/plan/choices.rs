//! Which member goes first (operator.md, "Choices").

use super::{
    facts::Id,
    view::{MemberView, Standing, View},
};

/// The member to let go: unlisted before listed, unhealthy before healthy, learner before voter, follower before
/// leader, then the youngest, then by name.
#[must_use]
pub(super) fn victim<'v, 'a>(view: &'v View<'a>) -> Option<&'v MemberView<'a>> {
    let leader = view.leader().map(|leader| leader.fact.name.as_str());
    view.members
        .iter()
        .filter(|member| !member.fact.deleting)
        .min_by_key(|member| {
            (
                member.listed.is_some(),
                member.healthy(),
                !matches!(
                    member.standing,
                    Standing::Learner(_) | Standing::Joining(_) | Standing::Unbound(_)
                ),
                leader == Some(member.fact.name.as_str()),
                std::cmp::Reverse(member.fact.created),
                member.fact.name.as_str(),
            )
        })
}

/// Who is to lead when `leader` must not any more: a healthy voter, one that stays before one that goes, and of those the
/// oldest, which is the last to be let go.
#[must_use]
pub(super) fn heir<'a>(view: &View<'a>, leader: &str) -> Option<(&'a str, Id)> {
    view.members
        .iter()
        .filter(|member| member.fact.name != leader && member.is_voter() && member.healthy())
        .min_by_key(|member| (member.fact.deleting, member.fact.created, member.fact.name.as_str()))
        .and_then(|member| Some((member.fact.name.as_str(), member.listed_id()?)))
}
