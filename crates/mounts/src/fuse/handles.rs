//! Open files and directories, by number.

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

/// An entry of a directory as it was listed.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) name: Vec<u8>,
    pub(super) kind: FileType,
    pub(super) inode: u64,
}

/// Something open.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) file: File,
    /// What a directory had when it was read from its start.
    listing: Mutex<Option<Arc<Vec<Listed>>>>,
}

impl Handle {
    /// The entries of a directory from a position on. Position 0 reads it again.
    pub(super) fn entries(&self, offset: u64) -> Result<Arc<Vec<Listed>>, Errno> {
        let mut listing = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        if offset > 0
            && let Some(known) = &*listing
        {
            return Ok(known.clone());
        }
        let mut found = Vec::new();
        // A directory that may be read need not be one that may be searched, so it is not opened again.
        let mut directory = Dir::new(self.file.try_clone().map_err(|_| Errno::MFILE)?)?;
        directory.rewind();
        while let Some(entry) = directory.read() {
            let entry = entry?;
            let name = entry.file_name().to_bytes().to_vec();
            found.push(Listed { name, kind: entry.file_type(), inode: entry.ino() });
        }
        let found = Arc::new(found);
        *listing = Some(found.clone());
        Ok(found)
    }
}

#[derive(Debug, Default)]
pub(super) struct Handles {
    open: Mutex<(u64, HashMap<u64, Arc<Handle>>)>,
}

impl Handles {
    pub(super) fn add(&self, file: File) -> u64 {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.0 += 1;
        let number = open.0;
        open.1.insert(number, Arc::new(Handle { file, listing: Mutex::new(None) }));
        number
    }

    pub(super) fn get(&self, number: u64) -> Result<Arc<Handle>, Errno> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.1.get(&number).cloned().ok_or(Errno::BADF)
    }

    pub(super) fn remove(&self, number: u64) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&number);
    }
}
