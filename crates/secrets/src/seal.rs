//! Encryption: AES-256-GCM with a random nonce in front.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

use crate::VaultError;
use crate::key::{Key, random};

/// The form of the file. It is authenticated too, so that another version is not misread.
const FORM: &[u8] = b"agentiso secrets 1\n";

/// Encrypts. Every call uses a new nonce.
pub(crate) fn seal(key: &Key, clear: &[u8]) -> Result<Vec<u8>, VaultError> {
    let mut nonce = [0; NONCE_LEN];
    random(&mut nonce)?;
    // With room for the tag: a buffer that grows would leave a copy behind.
    let mut buffer = Zeroizing::new(Vec::with_capacity(clear.len() + AES_256_GCM.tag_len()));
    buffer.extend_from_slice(clear);
    let nonce_used = Nonce::assume_unique_for_key(nonce);
    cipher(key)?
        .seal_in_place_append_tag(nonce_used, Aad::from(FORM), &mut *buffer)
        .map_err(|_| VaultError::Randomness)?;
    Ok([FORM, &nonce, &buffer].concat())
}

/// Decrypts; nothing if it was changed or sealed with another key.
pub(crate) fn open(key: &Key, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let rest = sealed.strip_prefix(FORM)?;
    let (nonce, body) = rest.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut buffer = Zeroizing::new(body.to_vec());
    let length = cipher(key).ok()?.open_in_place(nonce, Aad::from(FORM), &mut buffer).ok()?.len();
    buffer.truncate(length);
    Some(buffer)
}

fn cipher(key: &Key) -> Result<LessSafeKey, VaultError> {
    UnboundKey::new(&AES_256_GCM, &**key).map(LessSafeKey::new).map_err(|_| VaultError::Randomness)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(byte: u8) -> Key {
        Zeroizing::new([byte; 32])
    }

    proptest! {
        #[test]
        fn what_is_sealed_opens_with_its_key_alone(clear: Vec<u8>, place: usize) {
            let sealed = seal(&key(1), &clear).unwrap();
            prop_assert_eq!(open(&key(1), &sealed).unwrap().to_vec(), clear);
            prop_assert!(open(&key(2), &sealed).is_none());
            let mut changed = sealed.clone();
            let place = place % changed.len();
            changed[place] ^= 1;
            prop_assert!(open(&key(1), &changed).is_none());
            prop_assert!(open(&key(1), &sealed[..place]).is_none());
        }
    }

    #[test]
    fn the_same_text_is_never_sealed_the_same_way() {
        assert_ne!(seal(&key(1), b"text").unwrap(), seal(&key(1), b"text").unwrap());
    }
}
