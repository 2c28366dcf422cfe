//! From an act to the orders for the supervisor, in their sequence. Pure.
//!
//! A crash between any two of them is followed by the same end: each sequence writes last what makes it count.

use proto::supervisor::start::Kind;
pub use proto::supervisor::to_supervisor::Message as Order;
use proto::supervisor::{MoveAside, Recover, RemoveQuarantined, RemoveTree, SetRepeatable, Start, Stop, WriteFile};

use super::directory::{Directory, name};
use super::identity::{Identity, Nonce};
use super::quarantine::make_room;
use super::settings::Medium;
use super::standing::{Standing, StandingStart};
use crate::recover::journal::Order as RecoveryOrder;

/// What etcd is given to hand over its leadership and end.
pub const STOP_GRACE_SECONDS: u32 = 20;

/// A first start, with the identity made durable before it. What an earlier try has left is deleted: etcd never had a
/// WAL here, so nothing was ever promised on it.
pub fn start_once(
    directory: &Directory,
    nonce: &Nonce,
    start: StandingStart<'_>,
    cluster_uid: &str,
    member: &str,
    config: String,
) -> serde_json::Result<Vec<Order>> {
    let identity = Identity {
        cluster_uid: cluster_uid.to_owned(),
        incarnation: start.incarnation,
        token: start.first.token.clone(),
        cluster_id: start.first.cluster_id,
        member_id: start.first.member_id,
        member_name: member.to_owned(),
        nonce: nonce.clone(),
    };
    let mut orders = Vec::new();
    if directory.has_member {
        orders.push(Order::RemoveTree(RemoveTree {
            reason: "left by a first start that never came to its WAL".to_owned(),
            unborn_only: true,
        }));
    }
    orders.push(Order::Start(Start {
        kind: Kind::Once.into(),
        order: start.number,
        config: config.into_bytes(),
        identity: identity.to_json()?,
    }));
    Ok(orders)
}

/// A start that may be repeated.
#[must_use]
pub fn start_repeatable(config: String) -> Vec<Order> {
    vec![Order::Start(Start {
        kind: Kind::Repeatable.into(),
        order: 0,
        config: config.into_bytes(),
        identity: Vec::new(),
    })]
}

/// The configuration for restarts without the agent.
#[must_use]
pub fn set_repeatable(config: String) -> Vec<Order> {
    vec![Order::SetRepeatable(SetRepeatable {
        config: config.into_bytes(),
    })]
}

/// Stop etcd.
#[must_use]
pub fn stop(reason: String) -> Vec<Order> {
    vec![Order::Stop(Stop {
        grace_seconds: STOP_GRACE_SECONDS,
        reason,
    })]
}

/// A new nonce for a directory that has no data, or not any more. The nonce is written last: until then there is none,
/// and the same is done again after a crash.
pub fn renew(directory: &Directory, nonce: &Nonce, standing: &Standing) -> serde_json::Result<Vec<Order>> {
    let mut orders = Vec::new();
    if directory.has_member {
        // No WAL, but perhaps a db with data in it: never deleted on our own account.
        orders.push(Order::MoveAside(MoveAside {
            label: "no-wal".to_owned(),
        }));
    } else if directory.started {
        orders.push(Order::RemoveTree(RemoveTree {
            reason: "the data are gone".to_owned(),
            unborn_only: true,
        }));
    }
    forget(&mut orders, nonce, standing)?;
    Ok(orders)
}

/// Sets the directory aside, and makes a new nonce. Its member was removed from the cluster, by a quorum that stands: in
/// memory no second copy is kept, and on a disk none that would take more than half of it.
pub fn set_aside(
    medium: Medium,
    directory: &Directory,
    nonce: &Nonce,
    standing: &Standing,
) -> serde_json::Result<Vec<Order>> {
    let removed = directory
        .identity
        .as_ref()
        .map(|identity| identity.member_id.to_string())
        .unwrap_or_default();
    let room = make_room(&directory.quarantined, directory.bytes, directory.space.total_bytes);
    let mut orders = remove_quarantined(room.remove);
    orders.push(if medium == Medium::Disk && room.keep {
        Order::MoveAside(MoveAside {
            label: format!("removed-{removed}"),
        })
    } else {
        Order::RemoveTree(RemoveTree {
            reason: format!("member {removed} was removed from the cluster"),
            unborn_only: false,
        })
    });
    forget(&mut orders, nonce, standing)?;
    Ok(orders)
}

/// Puts the fence up, with the reason in it for people.
#[must_use]
pub fn put_fence(reason: &str) -> Vec<Order> {
    vec![write(name::FENCE, format!("{reason}\n").into_bytes())]
}

/// Takes the fence away.
#[must_use]
pub fn lift_fence() -> Vec<Order> {
    vec![write(name::FENCE, Vec::new())]
}

/// Begins a recovery, or goes on with it.
pub fn recover(order: &RecoveryOrder) -> serde_json::Result<Vec<Order>> {
    Ok(vec![Order::Recover(Recover {
        number: order.number,
        order: serde_json::to_vec(order)?,
    })])
}

/// Deletes what was set aside.
#[must_use]
pub fn remove_quarantined(names: Vec<String>) -> Vec<Order> {
    let remove = |name| Order::RemoveQuarantined(RemoveQuarantined { name });
    names.into_iter().map(remove).collect()
}

/// Writes a file of the agent's folder.
#[must_use]
pub fn write(name: &str, content: Vec<u8>) -> Order {
    Order::WriteFile(WriteFile {
        name: name.to_owned(),
        content,
    })
}

fn forget(orders: &mut Vec<Order>, nonce: &Nonce, standing: &Standing) -> serde_json::Result<()> {
    orders.push(write(name::IDENTITY, Vec::new()));
    // The volume may have been emptied: what was ordered so far must not be forgotten with it.
    orders.push(write(name::STANDING, serde_json::to_vec_pretty(standing)?));
    orders.push(write(name::NONCE, nonce.to_string().into_bytes()));
    Ok(())
}

#[cfg(test)]
#[path = "orders_tests.rs"]
mod tests;
