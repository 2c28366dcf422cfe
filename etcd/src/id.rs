//! The IDs of members and clusters, and how etcd computes them.

use std::{fmt, str::FromStr};

use sha1::{Digest, Sha1};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        /// As etcd's own tools print it, padded: 16 hex digits.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:016x})"), self.0)
            }
        }

        /// Hex, padded or not (etcdctl pads nothing).
        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let well_formed = (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
                match u64::from_str_radix(text, 16) {
                    Ok(id) if well_formed => Ok(Self(id)),
                    Ok(_) | Err(_) => Err(ParseIdError(text.chars().take(32).collect())),
                }
            }
        }
    };
}

id! {
    /// ID of a member in its cluster.
    MemberId
}

id! {
    /// ID of a cluster: of one history, not of the `EtcdCluster` object.
    ClusterId
}

/// A text that is no ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no etcd ID: write it as 1 to 16 hex digits")]
pub struct ParseIdError(String);

/// The ID that etcd gives to a member of a *new* cluster: the first 8 bytes, big-endian, of SHA-1 over the sorted peer
/// URLs and the cluster token (etcd `server/etcdserver/api/membership/member.go`, `computeMemberID`). A member that is
/// added at runtime has the time in its hash as well: only etcd knows that ID.
#[must_use]
pub fn member_id<S: AsRef<str>>(peer_urls: &[S], token: &str) -> MemberId {
    let mut urls: Vec<&str> = peer_urls.iter().map(AsRef::as_ref).collect();
    urls.sort_unstable();
    let mut hash = Sha1::new();
    for url in urls {
        hash.update(url.as_bytes());
    }
    hash.update(token.as_bytes());
    MemberId(first_eight(&hash.finalize().into()))
}

/// The ID that etcd gives to a new cluster of these members: the first 8 bytes, big-endian, of SHA-1 over the sorted
/// member IDs (etcd `server/etcdserver/api/membership/cluster.go`, `genID`).
#[must_use]
pub fn cluster_id(members: &[MemberId]) -> ClusterId {
    let mut ids = members.to_vec();
    ids.sort_unstable();
    let mut hash = Sha1::new();
    for id in ids {
        hash.update(id.0.to_be_bytes());
    }
    ClusterId(first_eight(&hash.finalize().into()))
}

fn first_eight(sum: &[u8; 20]) -> u64 {
    sum.iter().take(8).fold(0, |id, byte| (id << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_is_printed_with_sixteen_hex_digits() {
        assert_eq!(MemberId(0xa_bcde).to_string(), "00000000000abcde");
        assert_eq!(format!("{:?}", ClusterId(1)), "ClusterId(0000000000000001)");
    }

    #[test]
    fn what_is_no_hex_id_is_refused() {
        for text in ["", "+1", "-1", "0x1", "g", "00000000000000001", " 1"] {
            assert!(text.parse::<MemberId>().is_err(), "{text:?}");
        }
        assert_eq!("abc".parse(), Ok(MemberId(0xabc)));
    }

    #[test]
    fn the_order_of_urls_and_members_does_not_matter() {
        assert_eq!(
            member_id(&["http://b:1", "http://a:1"], "t"),
            member_id(&["http://a:1", "http://b:1"], "t")
        );
        assert_eq!(
            cluster_id(&[MemberId(2), MemberId(1)]),
            cluster_id(&[MemberId(1), MemberId(2)])
        );
        assert_ne!(member_id(&["http://a:1"], "t"), member_id(&["http://a:1"], "t-2"));
    }

    proptest! {
        #[test]
        fn every_id_survives_printing_and_parsing(id: u64) {
            prop_assert_eq!(MemberId(id).to_string().parse(), Ok(MemberId(id)));
            prop_assert_eq!(format!("{id:x}").parse(), Ok(ClusterId(id)));
        }
    }
}
