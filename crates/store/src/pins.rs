//! Pins: named roots that outlive processes, for what has no record elsewhere yet.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::error::StoreError;
use crate::lease::Root;
use crate::path::is_valid_name;
use crate::store::{Store, random_name};

impl Store {
    /// Keeps a root until [`Store::unpin`]; replaces an older pin of the same name. The root must be in the store, and the
    /// caller must hold a lease on it.
    pub fn pin(&self, name: &str, root: Root) -> Result<(), StoreError> {
        let path = self.pin_path(name)?;
        // A collection removes what is left in `tmp` while it holds this lock.
        let _commit = self.commit_lock(false)?;
        let partial = self.root().join("tmp").join(format!("pin-{}", random_name()?));
        let write = || {
            let mut file = fs::File::create(&partial)?;
            file.write_all(&root.encode())?;
            file.sync_all()?;
            fs::rename(&partial, &path)?;
            fs::File::open(self.root().join("pins"))?.sync_all()
        };
        write().map_err(|source| {
            let _ = fs::remove_file(&partial);
            StoreError::Io { what: "write", path: path.clone(), source }
        })
    }

    /// Removes a pin; returns whether there was one.
    pub fn unpin(&self, name: &str) -> Result<bool, StoreError> {
        let path = self.pin_path(name)?;
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(StoreError::Io { what: "remove", path, source }),
        }
    }

    /// All pins with their names, sorted. A pin that cannot be read is an error: it might protect something.
    pub fn pins(&self) -> Result<Vec<(String, Root)>, StoreError> {
        let directory = self.root().join("pins");
        let mut pins = Vec::new();
        for entry in fs::read_dir(&directory).map_err(StoreError::io("read", &directory))? {
            let path = entry.map_err(StoreError::io("read", &directory))?.path();
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(StoreError::Io { what: "read", path, source }),
            };
            let root = bytes.as_slice().try_into().ok().and_then(Root::decode);
            let root = root.ok_or_else(|| StoreError::damaged(path.display(), "it does not name a root"))?;
            pins.push((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), root));
        }
        pins.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(pins)
    }

    fn pin_path(&self, name: &str) -> Result<PathBuf, StoreError> {
        if !is_valid_name(name.as_bytes()) || name.starts_with('.') {
            let reason = "it must have 1 to 255 bytes, without \"/\", and must not begin with \".\"";
            return Err(StoreError::invalid(format!("the name of a pin, {name:?}"), reason));
        }
        Ok(self.root().join("pins").join(name))
    }
}
