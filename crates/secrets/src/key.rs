//! The key that secrets are encrypted with.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::Zeroizing;

use crate::VaultError;

pub(crate) const LENGTH: usize = 32;

pub(crate) type Key = Zeroizing<[u8; LENGTH]>;

/// Reads the key; nothing if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<Key>, VaultError> {
    let failed = |source| VaultError::Io { what: "read", path: path.to_owned(), source };
    let wrong = |what| VaultError::Key { path: path.to_owned(), what };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if file.metadata().map_err(failed)?.mode() & 0o077 != 0 {
        return Err(wrong("other users can read it"));
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(LENGTH + 1));
    file.take(LENGTH as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    let key: [u8; LENGTH] = bytes.as_slice().try_into().map_err(|_| wrong("it has a wrong length"))?;
    Ok(Some(Zeroizing::new(key)))
}

/// Makes a new key. Fails if there is one.
pub(crate) fn create(path: &Path) -> Result<Key, VaultError> {
    let failed = |source| VaultError::Io { what: "create", path: path.to_owned(), source };
    let mut key = Zeroizing::new([0; LENGTH]);
    random(&mut *key)?;
    // A key that was written in part would make everything that follows unreadable, so it gets its name when complete.
    let partial = path.with_extension("new");
    match std::fs::remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial).map_err(failed)?;
    file.write_all(&*key).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::hard_link(&partial, path).and_then(|()| std::fs::remove_file(&partial)).map_err(failed)?;
    Ok(key)
}

/// Fills with random bytes.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), VaultError> {
    let filled = getrandom(&mut *bytes, GetRandomFlags::empty());
    if filled.is_ok_and(|count| count == bytes.len()) { Ok(()) } else { Err(VaultError::Randomness) }
}
