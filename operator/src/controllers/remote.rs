//! Facts that are read anew for the decision at hand: reports of agents, and etcd's own member list.

use std::time::Duration;

use etcd::{Access, Admin};
use futures::{StreamExt, stream::FuturesUnordered};
use jiff::Timestamp;
use tokio::time::timeout;

use super::{World, links};
use crate::{
    agents::MemberKey,
    plan::{
        facts::{Cluster, Fact, Facts, Id, Leader, Link, Listed, Member, MemberList},
        report::{DirectoryState, Report},
        view::serves,
    },
};

/// Longest wait for the leader's index.
const LEADER_DEADLINE: Duration = Duration::from_secs(1);
/// Longest wait for etcd's member list, by each voter that is asked.
const LIST_DEADLINE: Duration = Duration::from_millis(1500);
/// A voter that has not given the list for so long, while another one misses its leader, is as silent as an agent that has
/// not reported.
const SILENCE: Duration = Duration::from_secs(1);
/// A voter that has not answered for so long is no longer the only one that is asked.
const ASK_ANOTHER: Duration = Duration::from_millis(300);

/// Reads again what must be fresh for the decision at hand: indexes of learners and of the leader, and the word of
/// members that contradict each other. Then etcd's own list.
pub(super) async fn read(world: &World, facts: &mut Facts) {
    if facts.cluster.record.cluster_id.is_none() || facts.cluster.ending || facts.cluster.hands_off {
        return;
    }
    if facts.members.iter().any(misses_its_leader) {
        // Whoever gives the list proves a quorum, and who does not answer is silent: both are found out at once.
        let may_give = |member: &&Member| member.record.voter && member.pod.ours().is_some_and(|pod| !pod.deleting);
        let urls: Vec<String> = facts.members.iter().filter(may_give).filter_map(client_url).collect();
        let (cluster, now) = (facts.cluster.clone(), facts.now);
        let list = timeout(SILENCE, first_list(&cluster, now, &urls, Duration::ZERO));
        let reports = ask_again(world, facts, |member| {
            member.link.live().is_some_and(|report| report.etcd.is_some())
        });
        let (list, ()) = futures::join!(list, reports);
        facts.list = list.unwrap_or_else(|_| Fact::Unknown {
            why: "no voter gives it while one misses its leader".into(),
        });
        return;
    }
    refresh_reports(world, facts).await;
    (facts.list, facts.leader) = futures::join!(member_list(facts), leader(facts));
}

/// A voter that knows no leader any more.
fn misses_its_leader(member: &Member) -> bool {
    let etcd = member.link.live().and_then(|report| report.etcd.as_ref());
    member.record.voter && etcd.is_some_and(|etcd| etcd.leader.is_none() && !etcd.learner)
}

/// The leader by etcd's own word, when a learner waits for its index and the leader's agent is not heard.
async fn leader(facts: &Facts) -> Option<Leader> {
    let live = |member: &Member| member.link.live().and_then(|report| report.etcd.clone());
    let etcds: Vec<_> = facts.members.iter().filter_map(live).collect();
    let id = etcds.iter().filter(|etcd| !etcd.learner).find_map(|etcd| etcd.leader)?;
    let learner = etcds.iter().any(|etcd| etcd.learner && etcd.serving);
    if !learner || etcds.iter().any(|etcd| etcd.member_id == id) {
        return None;
    }
    let bound = |member: &&Member| member.record.binding.as_ref().is_some_and(|binding| binding.id == id);
    let url = client_url(facts.members.iter().find(bound)?)?;
    let admin = Admin::new(&url, &Access::Plain, LEADER_DEADLINE).await.ok()?;
    let status = admin.status().await.ok()?;
    // By its own word.
    (status.leader == Some(status.member_id) && status.member_id.0 == id.0).then_some(Leader {
        id,
        commit: status.commit_index,
        at: facts.now,
    })
}

/// Before a step of consensus: the word of all who are counted on is heard anew. A link can look alive while its agent
/// is frozen; and whose data seem to be gone may just have started: its report is older than the list that has its name.
pub(super) async fn confirm(world: &World, facts: &mut Facts) {
    let asked = |member: &Member| {
        let report = member.link.live();
        report.is_some_and(|report| report.etcd.is_some() || report.directory.state == DirectoryState::Unborn)
    };
    ask_again(world, facts, asked).await;
}

async fn refresh_reports(world: &World, facts: &mut Facts) {
    let live = |member: &Member| member.link.live().and_then(|report| report.etcd.clone());
    let learner = facts
        .members
        .iter()
        .any(|member| live(member).is_some_and(|etcd| etcd.learner && etcd.serving));
    let leaderless = facts
        .members
        .iter()
        .any(|member| live(member).is_some_and(|etcd| etcd.leader.is_none()));
    if !learner && !leaderless {
        return;
    }
    let needed = |member: &Member| {
        live(member).is_some_and(|etcd| etcd.learner || etcd.leader == Some(etcd.member_id) || leaderless)
    };
    ask_again(world, facts, needed).await;
}

/// Reads the reports of these members again.
async fn ask_again(world: &World, facts: &mut Facts, which: impl Fn(&Member) -> bool) {
    let asked: Vec<(usize, MemberKey)> = facts
        .members
        .iter()
        .enumerate()
        .filter(|(_, member)| which(member))
        .map(|(index, member)| {
            (
                index,
                MemberKey {
                    namespace: facts.cluster.namespace.clone(),
                    name: member.name.clone(),
                },
            )
        })
        .collect();
    let mut answers: FuturesUnordered<_> = asked
        .into_iter()
        .map(|(index, member)| async move { (index, links::status(world, &member).await) })
        .collect();
    while let Some((index, answer)) = answers.next().await {
        let Some(member) = facts.members.get_mut(index) else {
            continue;
        };
        match answer {
            Ok((report, at)) => {
                member.link = Link::Up {
                    report: Box::new(report),
                    at,
                }
            }
            Err(error) => {
                let last = member.link.last().cloned().map(|report| (Box::new(report), facts.now));
                member.link = Link::Down {
                    since: facts.now,
                    why: error.to_string(),
                    last,
                };
            }
        }
    }
    facts.now = world.now();
}

/// From a voter that knows a leader, the leader first; when no link says anything at all, from any that answers. One that
/// belongs to another cluster has nothing to say here (M15).
async fn member_list(facts: &Facts) -> Fact<MemberList> {
    let reachable: Vec<&Member> = facts
        .members
        .iter()
        .filter(|member| member.pod.ours().is_some_and(|pod| pod.ip.is_some() && !pod.deleting))
        .collect();
    let mut asked: Vec<&Member> = reachable
        .iter()
        .copied()
        .filter(|member| member.link.live().is_some_and(|report| can_tell(facts, report)))
        .collect();
    asked.sort_by_key(|member| {
        let leads = member
            .link
            .live()
            .and_then(|report| report.etcd.as_ref())
            .is_some_and(|etcd| etcd.leader == Some(etcd.member_id));
        !leads
    });
    if asked.is_empty() {
        let heard = reachable.iter().any(|member| member.link.live().is_some());
        asked = reachable
            .into_iter()
            .filter(|member| member.record.voter && member.link.live().is_none())
            .collect();
        if asked.is_empty() {
            let why = if heard {
                "no voter knows a leader"
            } else {
                "no voter is reached"
            };
            return Fact::Unknown { why: why.into() };
        }
    }
    let urls: Vec<String> = asked.into_iter().filter_map(client_url).collect();
    first_list(&facts.cluster, facts.now, &urls, ASK_ANOTHER).await
}

/// It serves, knows a leader, votes, and is of this cluster.
pub(super) fn can_tell(facts: &Facts, report: &Report) -> bool {
    let ours = |id: Id| id.0 == 0 || !facts.cluster.cluster_differs(Some(id));
    serves(report)
        && report
            .etcd
            .as_ref()
            .is_some_and(|etcd| !etcd.learner && ours(etcd.cluster_id))
}

/// The first answer. Each is asked a while after the one before it, or at once when that one has failed: a port that is
/// filtered on one member hides nothing that the others tell.
async fn first_list(cluster: &Cluster, now: Timestamp, urls: &[String], apart: Duration) -> Fact<MemberList> {
    let mut left = urls.iter();
    let mut answers = FuturesUnordered::new();
    let mut why = String::from("no voter has an address");
    loop {
        if answers.is_empty() {
            let Some(url) = left.next() else {
                return Fact::Unknown { why };
            };
            answers.push(read_list(url));
        }
        let answer = tokio::select! {
            answer = answers.next() => answer,
            () = tokio::time::sleep(apart), if left.len() > 0 => {
                answers.extend(left.next().map(|url| read_list(url)));
                continue;
            }
        };
        match answer {
            Some(Ok(list)) if cluster.cluster_differs(list.cluster_id) => {
                why = "a member answers for another cluster".into();
            }
            Some(Ok(value)) => return Fact::Known { value, at: now },
            Some(Err(error)) => why = error.to_string(),
            None => {}
        }
    }
}

/// The client port of a member by its Pod's address: no name has to be resolved for it.
#[must_use]
pub(super) fn client_url(member: &Member) -> Option<String> {
    let ip = member.pod.ours()?.ip.as_deref()?;
    let port = proto::pod::CLIENT_PORT;
    Some(if ip.contains(':') {
        format!("http://[{ip}]:{port}")
    } else {
        format!("http://{ip}:{port}")
    })
}

async fn read_list(url: &str) -> Result<MemberList, etcd::EtcdError> {
    let admin = Admin::new(url, &Access::Plain, LIST_DEADLINE).await?;
    let list = admin.members().await?;
    Ok(MemberList {
        cluster_id: Some(Id(list.cluster_id.0)),
        members: list
            .members
            .into_iter()
            .map(|member| Listed {
                id: Id(member.id.0),
                name: member.name,
                peer_urls: member.peer_urls.into_iter().collect(),
                learner: member.is_learner,
            })
            .collect(),
    })
}
