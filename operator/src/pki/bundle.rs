//! The CAs in use: the current one and, for a while after it came, the one before.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use sha2::{Digest, Sha256};

use super::{Ca, PkiError};

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const TRUSTED: &str = "ca.crt";
const PREVIOUS_CERTIFICATE: &str = "previous.crt";
const PREVIOUS_KEY: &str = "previous.key";

/// What the Secret of the CA holds.
#[derive(Debug)]
pub struct Bundle {
    /// Issues everything.
    pub current: Ca,
    /// Still trusted, and still shown to agents that know no other.
    pub previous: Option<Ca>,
}

impl Bundle {
    /// A first CA.
    pub fn generate(now: Timestamp) -> Result<Self, PkiError> {
        Ok(Self {
            current: Ca::generate(now)?,
            previous: None,
        })
    }

    /// The bundle that should follow this one now, if any: a successor when the CA is old, without its predecessor
    /// when no leaf of that one can live any more.
    pub fn successor(&self, now: Timestamp) -> Result<Option<Self>, PkiError> {
        if self.current.is_old(now) {
            let previous = Some(self.current.again()?);
            return Ok(Some(Self {
                current: Ca::generate(now)?,
                previous,
            }));
        }
        if self.previous.is_some() && !self.current.is_young(now) {
            return Ok(Some(Self {
                current: self.current.again()?,
                previous: None,
            }));
        }
        Ok(None)
    }

    /// Reads it from its Secret.
    pub fn from_secret(secret: &Secret) -> Result<Self, PkiError> {
        let text = |key: &str| -> Result<Option<&str>, PkiError> {
            let Some(bytes) = secret.data.as_ref().and_then(|data| data.get(key)) else {
                return Ok(None);
            };
            std::str::from_utf8(&bytes.0)
                .map(Some)
                .map_err(|_| PkiError::Unusable(format!("{key} is no text")))
        };
        let missing = |key: &str| PkiError::Unusable(format!("key {key} is missing"));
        let current = Ca::from_pem(
            text(CERTIFICATE)?.ok_or_else(|| missing(CERTIFICATE))?,
            text(KEY)?.ok_or_else(|| missing(KEY))?,
        )?;
        let previous = match (text(PREVIOUS_CERTIFICATE)?, text(PREVIOUS_KEY)?) {
            (Some(certificate), Some(key)) => Some(Ca::from_pem(certificate, key)?),
            (Some(_), None) | (None, Some(_) | None) => None,
        };
        Ok(Self { current, previous })
    }

    /// The content of its Secret.
    #[must_use]
    pub fn to_data(&self) -> BTreeMap<String, ByteString> {
        let mut data = BTreeMap::new();
        let mut put = |key: &str, value: &str| {
            data.insert(key.to_owned(), ByteString(value.as_bytes().to_vec()));
        };
        put(CERTIFICATE, self.current.certificate_pem());
        put(KEY, self.current.key_pem());
        put(TRUSTED, &self.trusted_pem());
        if let Some(previous) = &self.previous {
            put(PREVIOUS_CERTIFICATE, previous.certificate_pem());
            put(PREVIOUS_KEY, previous.key_pem());
        }
        data
    }

    /// The certificates to trust, PEM, the current one first.
    #[must_use]
    pub fn trusted_pem(&self) -> String {
        self.all().map(Ca::certificate_pem).collect()
    }

    /// The CAs, the current one first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Ca> {
        std::iter::once(&self.current).chain(&self.previous)
    }

    /// Changes whenever a certificate in it does: SHA-256 of them, hex, cut to 32 digits.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for ca in self.all() {
            hash.update(ca.der());
        }
        let mut hex = format!("{:x}", hash.finalize());
        hex.truncate(32);
        hex
    }
}

impl Ca {
    fn again(&self) -> Result<Self, PkiError> {
        Self::from_pem(self.certificate_pem(), self.key_pem())
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(days: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * (20_000 + days))
    }

    fn secret(bundle: &Bundle) -> Secret {
        Secret {
            data: Some(bundle.to_data()),
            ..Secret::default()
        }
    }

    #[test]
    fn a_bundle_survives_its_secret() {
        let first = Bundle::generate(at(0)).unwrap();
        let second = first.successor(at(365 * 9)).unwrap().unwrap();
        let read = Bundle::from_secret(&secret(&second)).unwrap();
        assert_eq!(read.to_data(), second.to_data());
        assert_eq!(read.fingerprint(), second.fingerprint());
    }

    #[test]
    fn a_ca_is_replaced_at_four_fifths_of_its_life_and_trusted_until_its_last_leaf_has_ended() {
        let first = Bundle::generate(at(0)).unwrap();
        assert!(first.successor(at(365 * 8 - 1)).unwrap().is_none());
        let rotated_at = 365 * 8;
        let both = first.successor(at(rotated_at)).unwrap().unwrap();
        let previous = both.previous.as_ref().map(Ca::certificate_pem);
        assert_eq!(previous, Some(first.current.certificate_pem()));
        assert!(both.trusted_pem().contains(first.current.certificate_pem()));
        assert!(both.successor(at(rotated_at + 89)).unwrap().is_none());
        let alone = both.successor(at(rotated_at + 91)).unwrap().unwrap();
        assert!(alone.previous.is_none());
        assert_eq!(alone.current.certificate_pem(), both.current.certificate_pem());
        assert!(alone.successor(at(rotated_at + 91)).unwrap().is_none());
    }

    #[test]
    fn a_secret_without_a_usable_ca_says_what_is_wrong_with_it() {
        let one = Bundle::generate(at(0)).unwrap();
        let other = Bundle::generate(at(0)).unwrap();
        let mut foreign_key = secret(&one);
        foreign_key
            .data
            .as_mut()
            .unwrap()
            .insert(KEY.into(), other.to_data()[KEY].clone());
        let error = Bundle::from_secret(&foreign_key).unwrap_err().to_string();
        assert!(error.contains("do not belong together"), "{error}");
        let mut no_key = secret(&one);
        no_key.data.as_mut().unwrap().remove(KEY);
        let error = Bundle::from_secret(&no_key).unwrap_err().to_string();
        assert!(error.contains("key tls.key is missing"), "{error}");
        let mut garbage = secret(&one);
        garbage
            .data
            .as_mut()
            .unwrap()
            .insert(CERTIFICATE.into(), ByteString(b"hello".to_vec()));
        assert!(Bundle::from_secret(&garbage).is_err());
    }
}
