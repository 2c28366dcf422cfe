//! What is recorded beside the data before etcd's first start on it.

use std::fmt;
use std::io::Read as _;

use etcd::{ClusterId, MemberId};
use proto::agent as wire;
use serde::{Deserialize, Serialize};

/// Which directory this is: random, 32 hex digits, made when there is no usable directory. The operator binds a
/// member ID to it before the first start, so that no ID ever starts on two directories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Nonce(String);

impl Nonce {
    /// A new one. Fails when the kernel gives no random bytes.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0_u8; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(format!("{:032x}", u128::from_be_bytes(bytes))))
    }

    /// The 32 hex digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Nonce {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 32 && text.bytes().all(hex) {
            Ok(Self(text))
        } else {
            Err(format!(
                "{:?} is not a directory nonce (32 lower-case hex digits)",
                text.chars().take(40).collect::<String>()
            ))
        }
    }
}

impl From<Nonce> for String {
    fn from(nonce: Nonce) -> Self {
        nonce.0
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Content of `identity.json`. IDs are written as etcd prints them, in hex: JSON readers round large integers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// UID of the `EtcdCluster` object.
    pub cluster_uid: String,
    /// Which history of that cluster: raised by a recovery.
    pub incarnation: u64,
    /// `initial-cluster-token` of that history.
    pub token: String,
    /// etcd's cluster ID.
    #[serde(with = "as_text")]
    pub cluster_id: ClusterId,
    /// etcd's member ID.
    #[serde(with = "as_text")]
    pub member_id: MemberId,
    /// etcd's member name.
    pub member_name: String,
    /// The directory it was recorded for.
    pub nonce: Nonce,
}

impl Identity {
    /// The file's content. Never fails for this type; an error would be a bug in the serializer.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self)
    }
}

impl From<&Identity> for wire::Identity {
    fn from(identity: &Identity) -> Self {
        Self {
            cluster_uid: identity.cluster_uid.clone(),
            incarnation: identity.incarnation,
            token: identity.token.clone(),
            cluster_id: identity.cluster_id.0,
            member_id: identity.member_id.0,
            member_name: identity.member_name.clone(),
            nonce: identity.nonce.to_string(),
        }
    }
}

/// A value that is written as its own text: an ID of etcd in hex.
pub mod as_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    /// As [`Display`] has it.
    pub fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    /// As [`FromStr`] reads it.
    pub fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_128_random_bits_in_hex_and_nothing_else_is_taken_for_one() {
        let (one, other) = (Nonce::random().unwrap(), Nonce::random().unwrap());
        assert_ne!(one, other);
        assert_eq!(Nonce::try_from(one.to_string()), Ok(one));
        for wrong in ["", "abc", &"g".repeat(32), &"A".repeat(32), &"0".repeat(33)] {
            assert!(Nonce::try_from((*wrong).to_owned()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_identity_survives_its_file_with_all_64_bits_of_its_ids() {
        let identity = Identity {
            cluster_uid: "6a1f".to_owned(),
            incarnation: 2,
            token: "t".to_owned(),
            cluster_id: ClusterId(u64::MAX - 1),
            member_id: MemberId(0x8e9e_05c5_2164_694d),
            member_name: "c-0".to_owned(),
            nonce: Nonce::try_from("0".repeat(32)).unwrap(),
        };
        let json = identity.to_json().unwrap();
        assert!(String::from_utf8_lossy(&json).contains("\"8e9e05c52164694d\""));
        assert_eq!(serde_json::from_slice::<Identity>(&json).unwrap(), identity);
    }
}
