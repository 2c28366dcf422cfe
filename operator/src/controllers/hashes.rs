//! Asks the members for hashes over their data (what they mean: [`crate::plan::divergence`]). It may take seconds a member,
//! so it goes on beside the passes, which are woken at its end.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use proto::agent::HashResponse;

use super::{
    World,
    memory::{Memory, with},
    mirror::ClusterKey,
    queue::Queue,
};
use crate::{
    agents::{LinkError, Links, MemberKey},
    plan::{
        alarms,
        divergence::{Answer, Asked, Look},
        facts::{Facts, Id},
        view::View,
    },
};

/// Longest wait for one answer; the agent's own limit is 30 s.
const DEADLINE: Duration = Duration::from_secs(32);
/// Looks that are kept.
const LOOKS: usize = 2;

/// Remembers since when what is there is there.
pub(super) fn note(memory: &mut Memory, facts: &mut Facts) {
    memory.hashes.since.get_or_insert(facts.now);
    memory.hashes.corrupt_since = if alarms::stands(&View::new(facts), "CORRUPT") {
        memory.hashes.corrupt_since.or(Some(facts.now))
    } else {
        None
    };
    facts.hashes.clone_from(&memory.hashes);
}

/// Begins to ask. At the end the memory has one more look, and the cluster is woken.
pub(super) fn start(world: &World, key: &ClusterKey, cluster: Option<Id>, asked: Vec<Asked>) {
    let memory = world.memory(key);
    with(&memory, |memory| memory.hashes.under_way = true);
    // Also when it ends by a panic.
    let end = End {
        memory,
        queue: world.queue.clone(),
        key: key.clone(),
    };
    let (links, at) = (world.operator.links.clone(), world.now());
    let metrics = Arc::clone(&world.operator.metrics);
    tokio::spawn(async move {
        let look = look(&links, &end.key, cluster, asked, at).await;
        let differ = say(&end.key, &look);
        metrics.comparison(look.answers.len() == look.asked.len(), differ);
        with(&end.memory, |memory| {
            let looks = &mut memory.hashes.looks;
            looks.push(look);
            let surplus = looks.len().saturating_sub(LOOKS);
            looks.drain(..surplus);
        });
        drop(end);
    });
}

struct End {
    memory: Arc<Mutex<Memory>>,
    queue: Queue,
    key: ClusterKey,
}

impl Drop for End {
    fn drop(&mut self) {
        with(&self.memory, |memory| memory.hashes.under_way = false);
        self.queue.wake(self.key.clone());
    }
}

/// One after the other, so that a quorum applies what is written meanwhile; all at the revision of the first.
async fn look(links: &Links, key: &ClusterKey, cluster: Option<Id>, asked: Vec<Asked>, at: Timestamp) -> Look {
    let began = Instant::now();
    let mut answers: Vec<Answer> = Vec::new();
    for of in &asked {
        let member = MemberKey {
            namespace: key.namespace.clone(),
            name: of.member.clone(),
        };
        let revision = answers.first().map_or(0, |first| first.revision);
        match links.hash(&member, revision, DEADLINE).await {
            Ok(hash) if Id(hash.member_id) == of.id && Some(Id(hash.cluster_id)) == cluster => {
                answers.push(answer(&hash));
            }
            Ok(hash) => {
                tracing::debug!(%member, asked = %of.id, answered = %Id(hash.member_id), "another member answered");
            }
            Err(error) => untold(&error),
        }
        if answers.is_empty() {
            // Without a revision the others cannot be compared.
            break;
        }
    }
    Look {
        at,
        took: began.elapsed(),
        asked,
        answers,
    }
}

/// It is asked again, and that a member is not well is said by others.
fn untold(error: &LinkError) {
    tracing::debug!(%error, "a member has not told the hash of its data");
}

fn answer(hash: &HashResponse) -> Answer {
    Answer {
        id: Id(hash.member_id),
        revision: hash.revision,
        compact: hash.compact_revision,
        hash: hash.hash,
    }
}

/// One line when members differ. True: they do.
fn say(key: &ClusterKey, look: &Look) -> bool {
    let differ = |one: &Answer, other: &Answer| {
        (one.revision, one.compact) == (other.revision, other.compact) && one.hash != other.hash
    };
    let differs = look
        .answers
        .iter()
        .any(|one| look.answers.iter().any(|other| differ(one, other)));
    if differs {
        let told = |answer: &Answer| format!("{}: {:08x}", answer.id, answer.hash);
        let hashes: Vec<String> = look.answers.iter().map(told).collect();
        let revision = look.answers.first().map_or(0, |first| first.revision);
        tracing::warn!(
            namespace = %key.namespace, cluster = %key.name, revision, hashes = %hashes.join(", "),
            "members hold different data"
        );
    }
    differs
}
