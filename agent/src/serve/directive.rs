//! Directives: what the operator's message says, checked against what the agent knows. Pure.

use etcd::{ClusterId, MemberId};
use proto::agent as wire;
use proto::agent::directive::Order as WireOrder;
use serde::{Deserialize, Serialize};

use super::directory::{Directory, State};
use super::identity::{Nonce, as_text};
use super::standing::Standing;
use crate::recover::journal::Journal;

/// One accepted order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directive {
    /// Rises from one to the next.
    pub number: u64,
    /// The history it was given in; 0 when it does not say.
    pub incarnation: u64,
    /// The directory it is meant for, where that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Nonce>,
    /// What to do.
    pub order: Order,
}

impl Directive {
    /// The same, but for the number.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        (self.incarnation, &self.nonce, &self.order) == (other.incarnation, &other.nonce, &other.order)
    }
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Start as the first member of a new cluster.
    Seed(FirstStart),
    /// Start as a learner of a cluster that runs.
    Join(FirstStart),
    /// Lift a hold.
    Resume,
    /// Stop etcd and keep it stopped.
    Hold {
        /// For people.
        reason: String,
    },
    /// Set the directory aside.
    Quarantine {
        /// The ID that was removed from the cluster.
        #[serde(with = "as_text")]
        removed: MemberId,
    },
    /// Options for the next start.
    Reconfigure(Options),
    /// Stop etcd and keep it stopped, by a file that outlives agent and supervisor.
    Fence {
        /// For people.
        reason: String,
    },
    /// Make a new history of the directory.
    Recover(Recover),
}

/// All that a recovery needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recover {
    /// `initial-cluster-token` of the new history.
    pub token: String,
    /// The ID this member will have.
    #[serde(with = "as_text")]
    pub member_id: MemberId,
    /// The ID of the cluster.
    #[serde(with = "as_text")]
    pub cluster_id: ClusterId,
    /// The new directory.
    pub new_nonce: Nonce,
    /// etcd's options.
    pub options: Options,
}

/// All that a first start needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstStart {
    /// `initial-cluster-token`.
    pub token: String,
    /// The ID this member will have.
    #[serde(with = "as_text")]
    pub member_id: MemberId,
    /// The ID of the cluster.
    #[serde(with = "as_text")]
    pub cluster_id: ClusterId,
    /// The whole member list: names and peer URLs. For a seed, itself.
    pub members: Vec<Peer>,
    /// etcd's options.
    pub options: Options,
}

/// One entry of `initial-cluster`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its name. etcd compares URLs, not names, so one that has none yet is named by its ID.
    pub name: String,
    /// Its peer URLs.
    pub urls: Vec<String>,
}

/// etcd's options; what is `None` is left to etcd's own default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_backend_bytes: Option<i64>,
    /// `periodic` or `revision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_compaction_mode: Option<String>,
    /// A number or a duration, as etcd's flag takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_compaction_retention: Option<String>,
    /// Entries between two snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_count: Option<i64>,
}

impl From<wire::Options> for Options {
    fn from(wire: wire::Options) -> Self {
        let text = |text: String| Some(text).filter(|text| !text.is_empty());
        let number = |number: i64| Some(number).filter(|number| *number != 0);
        Self {
            quota_backend_bytes: number(wire.quota_backend_bytes),
            auto_compaction_mode: text(wire.auto_compaction_mode),
            auto_compaction_retention: text(wire.auto_compaction_retention),
            snapshot_count: number(wire.snapshot_count),
        }
    }
}

/// Why a directive is not taken. Each names what was said and what is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// This agent cannot do it.
    #[error("the agent of {member} does not know the directive {name}; use a newer agent image")]
    Unknown {
        /// Which member.
        member: String,
        /// Which directive.
        name: &'static str,
    },
    /// The message makes no sense in itself.
    #[error("directive {number} for {member} is malformed: {detail}")]
    Malformed {
        /// Which member.
        member: String,
        /// Which directive.
        number: u64,
        /// What is wrong.
        detail: String,
    },
    /// It is not meant for what is here, or not any more.
    #[error("directive {number} for {member} is refused: {detail}")]
    Refused {
        /// Which member.
        member: String,
        /// Which directive.
        number: u64,
        /// Both values, and which of them is expected.
        detail: String,
    },
}

/// Who the agent is.
#[derive(Debug, Clone, Copy)]
pub struct Own<'a> {
    /// Name of the member.
    pub member: &'a str,
    /// UID of the `EtcdCluster` object.
    pub cluster_uid: &'a str,
    /// `initial-advertise-peer-urls`.
    pub peer_url: &'a str,
}

/// What becomes of a directive that is not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// New: to be recorded, then acted on.
    Take(Directive),
    /// The very one that was taken last: answered, nothing else.
    Again,
}

/// Checks a directive.
pub fn check(
    wire: wire::Directive,
    own: Own<'_>,
    standing: &Standing,
    directory: &Directory,
) -> Result<Verdict, Refusal> {
    let number = wire.number;
    let refused = |detail: String| Refusal::Refused {
        member: own.member.to_owned(),
        number,
        detail,
    };
    if wire.cluster_uid != own.cluster_uid {
        return Err(refused(format!(
            "it is for the cluster object with UID {:?}, this agent serves {:?}",
            wire.cluster_uid, own.cluster_uid
        )));
    }
    let directive = parse(wire, own)?;
    if standing.last.as_ref() == Some(&directive) {
        return Ok(Verdict::Again);
    }
    if number <= standing.number {
        return Err(refused(format!(
            "it is stale: its number is not higher than {}, the last one taken",
            standing.number
        )));
    }
    let recorded = directory.identity.as_ref().map_or(0, |identity| identity.incarnation);
    let newest = standing.incarnation.max(recorded);
    let says_history = directive.incarnation != 0 || directive.order.starts();
    if says_history && directive.incarnation < newest {
        return Err(refused(format!(
            "it is of incarnation {}, the member is of incarnation {newest}",
            directive.incarnation
        )));
    }
    if let Some(nonce) = &directive.nonce
        && directory.nonce.as_ref() != Some(nonce)
    {
        let present = directory.nonce.as_ref().map_or("none yet", Nonce::as_str);
        return Err(refused(format!(
            "it is for directory {nonce}, the directory here is {present}"
        )));
    }
    match &directive.order {
        Order::Seed(first) | Order::Join(first) => first_start_fits(first, directory).map_err(refused)?,
        Order::Quarantine { removed } => match &directory.identity {
            Some(identity) if identity.member_id == *removed => {}
            Some(identity) => {
                return Err(refused(format!(
                    "it is for member ID {removed}, the directory is of {}",
                    identity.member_id
                )));
            }
            None => {
                return Err(refused(format!(
                    "it is for member ID {removed}, no identity is recorded here"
                )));
            }
        },
        Order::Recover(_) if directive.incarnation <= recorded => {
            return Err(refused(format!(
                "it makes incarnation {}, the directory is of incarnation {recorded}",
                directive.incarnation
            )));
        }
        Order::Recover(_) => recoverable(directory).map_err(refused)?,
        Order::Resume | Order::Hold { .. } | Order::Reconfigure(_) | Order::Fence { .. } => {}
    }
    Ok(Verdict::Take(directive))
}

/// Only a whole log can be made a new history of; etcd is stopped before.
fn recoverable(directory: &Directory) -> Result<(), String> {
    match &directory.state {
        State::Intact | State::TornTail | State::Foreign { .. } | State::InUse => Ok(()),
        // In place the data are elsewhere meanwhile.
        State::Unborn if directory.recovery.as_ref().is_some_and(Journal::is_open) => Ok(()),
        State::Unborn => Err("the directory is empty".to_owned()),
        State::Damaged { detail } => Err(format!("the directory is damaged: {detail}")),
        State::Unreadable { error } => Err(format!("the directory cannot be read: {error}")),
    }
}

/// A first start needs a directory that never started, or one that this very order has started already.
fn first_start_fits(first: &FirstStart, directory: &Directory) -> Result<(), String> {
    if let Some(identity) = &directory.identity {
        let same = (identity.member_id, identity.cluster_id, &identity.token)
            == (first.member_id, first.cluster_id, &first.token);
        if same {
            return Ok(());
        }
        if directory.has_wal || directory.started || directory.state == State::InUse {
            return Err(format!(
                "it is for member ID {} of cluster {} (token {:?}), the directory is of {} of {} (token {:?})",
                first.member_id, first.cluster_id, first.token, identity.member_id, identity.cluster_id, identity.token
            ));
        }
    }
    match &directory.state {
        State::Unborn if directory.started => Err("etcd has once started on this directory".to_owned()),
        State::Unborn => Ok(()),
        State::Intact | State::TornTail => {
            Err("the directory holds data, and none are recorded as this member's".to_owned())
        }
        State::Damaged { detail } => Err(format!("the directory is damaged: {detail}")),
        State::Foreign { detail } => Err(format!("the directory is foreign: {detail}")),
        State::InUse => Err("etcd runs on the directory".to_owned()),
        State::Unreadable { error } => Err(format!("the directory cannot be read: {error}")),
    }
}

/// What the message says, in itself.
fn parse(wire: wire::Directive, own: Own<'_>) -> Result<Directive, Refusal> {
    let member = || own.member.to_owned();
    let number = wire.number;
    let malformed = |detail: String| Refusal::Malformed {
        member: member(),
        number,
        detail,
    };
    let unknown = |name| Err(Refusal::Unknown { member: member(), name });
    let nonce = match wire.nonce.as_str() {
        "" => None,
        text => Some(Nonce::try_from(text.to_owned()).map_err(malformed)?),
    };
    let order = match wire.order {
        Some(WireOrder::Seed(seed)) => Order::Seed(seed_start(seed, own).map_err(malformed)?),
        Some(WireOrder::Join(join)) => Order::Join(join_start(join, own).map_err(malformed)?),
        Some(WireOrder::Resume(resume)) if resume == wire::Resume::default() => Order::Resume,
        Some(WireOrder::Resume(_)) => return unknown("Resume with IDs (to adopt a directory)"),
        Some(WireOrder::Hold(hold)) => Order::Hold {
            reason: shortened(&hold.reason),
        },
        Some(WireOrder::Quarantine(quarantine)) => Order::Quarantine {
            removed: MemberId(quarantine.removed_member_id),
        },
        Some(WireOrder::Reconfigure(new)) => Order::Reconfigure(new.options.unwrap_or_default().into()),
        Some(WireOrder::Restore(_)) => return unknown("Restore"),
        Some(WireOrder::Fence(fence)) => Order::Fence {
            reason: shortened(&fence.reason),
        },
        Some(WireOrder::Recover(recover)) => Order::Recover(recovery(recover, own).map_err(malformed)?),
        Some(WireOrder::Credentials(_)) => return unknown("Credentials"),
        None => return unknown("that it sent (its name is of a newer protocol)"),
    };
    if number == 0 {
        return Err(malformed("its number is 0; numbers begin at 1".to_owned()));
    }
    if order.starts() && nonce.is_none() {
        return Err(malformed(
            "a first start or a recovery must name the directory's nonce".to_owned(),
        ));
    }
    Ok(Directive {
        number,
        incarnation: wire.incarnation,
        nonce,
        order,
    })
}

fn seed_start(seed: wire::Seed, own: Own<'_>) -> Result<FirstStart, String> {
    let first = FirstStart {
        members: vec![Peer {
            name: own.member.to_owned(),
            urls: vec![own.peer_url.to_owned()],
        }],
        token: seed.token,
        member_id: MemberId(seed.member_id),
        cluster_id: ClusterId(seed.cluster_id),
        options: seed.options.unwrap_or_default().into(),
    };
    has_token(&first)?;
    are_of_token(first.member_id, first.cluster_id, &first.token, own)?;
    Ok(first)
}

/// Both ends compute them: a difference would bind an ID to this directory that etcd will not use.
fn are_of_token(member: MemberId, cluster: ClusterId, token: &str, own: Own<'_>) -> Result<(), String> {
    let member_id = etcd::member_id(&[own.peer_url], token);
    let cluster_id = etcd::cluster_id(&[member_id]);
    if (member, cluster) == (member_id, cluster_id) {
        return Ok(());
    }
    Err(format!(
        "it gives member ID {member} and cluster ID {cluster}, but {} with token {token:?} makes {member_id} and \
         {cluster_id}",
        own.peer_url
    ))
}

fn recovery(wire: wire::Recover, own: Own<'_>) -> Result<Recover, String> {
    let recover = Recover {
        new_nonce: Nonce::try_from(wire.new_nonce)?,
        token: wire.token,
        member_id: MemberId(wire.member_id),
        cluster_id: ClusterId(wire.cluster_id),
        options: wire.options.unwrap_or_default().into(),
    };
    is_token(&recover.token)?;
    are_of_token(recover.member_id, recover.cluster_id, &recover.token, own)?;
    Ok(recover)
}

fn join_start(join: wire::Join, own: Own<'_>) -> Result<FirstStart, String> {
    let mut found = false;
    let mut members = Vec::with_capacity(join.members.len());
    for peer in join.members {
        let id = MemberId(peer.id);
        let name = if peer.id == join.member_id {
            found = true;
            if peer.peer_urls != [own.peer_url] {
                return Err(format!(
                    "it lists member ID {id} with {:?}, this member is at {:?}",
                    peer.peer_urls, own.peer_url
                ));
            }
            own.member.to_owned()
        } else if peer.name.is_empty() {
            format!("unstarted-{id}")
        } else {
            peer.name
        };
        if peer.peer_urls.is_empty() {
            return Err(format!("it lists member ID {id} without a peer URL"));
        }
        members.push(Peer {
            name,
            urls: peer.peer_urls,
        });
    }
    if !found {
        return Err(format!(
            "its member list lacks member ID {}, the joining one",
            MemberId(join.member_id)
        ));
    }
    let first = FirstStart {
        members,
        token: join.token,
        member_id: MemberId(join.member_id),
        cluster_id: ClusterId(join.cluster_id),
        options: join.options.unwrap_or_default().into(),
    };
    has_token(&first)?;
    Ok(first)
}

/// It is recorded, and shown in each report.
const MAX_TOKEN_BYTES: usize = 256;

fn is_token(token: &str) -> Result<(), String> {
    if token.is_empty() {
        return Err("it has no cluster token".to_owned());
    }
    if token.len() > MAX_TOKEN_BYTES {
        return Err(format!(
            "its cluster token has {} bytes; {MAX_TOKEN_BYTES} are taken",
            token.len()
        ));
    }
    Ok(())
}

fn has_token(first: &FirstStart) -> Result<(), String> {
    is_token(&first.token)?;
    if first.member_id.0 == 0 || first.cluster_id.0 == 0 {
        return Err(format!(
            "it gives member ID {} and cluster ID {}; 0 is none",
            first.member_id, first.cluster_id
        ));
    }
    Ok(())
}

/// Reasons are shown to people in one line.
fn shortened(reason: &str) -> String {
    reason.chars().filter(|char| !char.is_control()).take(200).collect()
}

impl Order {
    /// The first start it orders, if it orders one.
    #[must_use]
    pub fn first_start(&self) -> Option<&FirstStart> {
        match self {
            Self::Seed(first) | Self::Join(first) => Some(first),
            Self::Resume
            | Self::Hold { .. }
            | Self::Quarantine { .. }
            | Self::Reconfigure(_)
            | Self::Fence { .. }
            | Self::Recover(_) => None,
        }
    }

    /// Does it make something of one certain directory?
    #[must_use]
    pub fn starts(&self) -> bool {
        self.first_start().is_some() || matches!(self, Self::Recover(_))
    }

    /// Its name, for logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Seed(_) => "Seed",
            Self::Join(_) => "Join",
            Self::Resume => "Resume",
            Self::Hold { .. } => "Hold",
            Self::Quarantine { .. } => "Quarantine",
            Self::Reconfigure(_) => "Reconfigure",
            Self::Fence { .. } => "Fence",
            Self::Recover(_) => "Recover",
        }
    }
}

#[cfg(test)]
#[path = "directive_tests.rs"]
mod tests;
