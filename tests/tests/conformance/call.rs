//! One call to a real etcd, and its outcome in the model's terms.

use etcd::{EtcdError, MemberId, Refusal};
use operator::plan::facts::Id;
use tests::model::etcd::{Change, No};
use tokio::time::timeout;

use super::process::{DEADLINE, Node};

/// What came of it. An added member has an ID.
pub(crate) type Outcome = Result<Option<Id>, No>;

pub(crate) async fn ask(node: &Node, change: &Change) -> Outcome {
    let admin = node.admin().await;
    match change {
        Change::AddLearner(url) => named(admin.add_learner(std::slice::from_ref(url)).await.map(|(id, _)| id)),
        Change::Promote { id, .. } => plain(admin.promote(MemberId(id.0)).await),
        Change::Remove(id) => plain(admin.remove(MemberId(id.0)).await),
        Change::AddVoter(url) => {
            let mut client = raw(node).await?;
            let answer = timeout(DEADLINE, client.member_add(vec![url.clone()], None)).await;
            let answer = answer.map_err(|_| No::NoAnswer)?.map_err(|error| refusal(&error))?;
            Ok(answer.member().map(|member| Id(member.id())))
        }
        Change::Update(id, url) => {
            let mut client = raw(node).await?;
            let answer = timeout(DEADLINE, client.member_update(id.0, vec![url.clone()])).await;
            answer.map_err(|_| No::NoAnswer)?.map_err(|error| refusal(&error))?;
            Ok(None)
        }
    }
}

pub(crate) async fn move_leader(node: &Node, to: Id) -> Outcome {
    plain(node.admin().await.move_leader(MemberId(to.0)).await)
}

/// The list, linearizably: ID, name, peer URLs, whether it is a learner.
pub(crate) async fn members(node: &Node) -> Result<Vec<(Id, String, String, bool)>, No> {
    let list = node.admin().await.members().await.map_err(|error| no(&error))?;
    let members = list.members.into_iter();
    Ok(members
        .map(|member| {
            let urls: Vec<String> = member.peer_urls.into_iter().collect();
            (Id(member.id.0), member.name, urls.join(","), member.is_learner)
        })
        .collect())
}

async fn raw(node: &Node) -> Result<etcd_client::Client, No> {
    let client = etcd_client::Client::connect([&node.client_url], None).await;
    client.map_err(|_| No::NoAnswer)
}

fn named(answer: Result<MemberId, EtcdError>) -> Outcome {
    answer.map(|id| Some(Id(id.0))).map_err(|error| no(&error))
}

fn plain(answer: Result<(), EtcdError>) -> Outcome {
    answer.map(|()| None).map_err(|error| no(&error))
}

fn no(error: &EtcdError) -> No {
    error
        .refusal()
        .map_or(No::NoAnswer, |refusal| No::Refused(one_name(refusal)))
}

fn refusal(error: &etcd_client::Error) -> No {
    let etcd_client::Error::GRpcStatus(status) = error else {
        return No::NoAnswer;
    };
    Refusal::from_message(status.message()).map_or(No::NoAnswer, |refusal| No::Refused(one_name(refusal)))
}

/// The ID of an added member is a hash of its URL and the second: within one second it is the ID that exists already.
fn one_name(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::MemberExists => Refusal::PeerUrlExists,
        other => other,
    }
}
