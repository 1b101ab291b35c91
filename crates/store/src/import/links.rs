//! Files with several names.

use std::collections::HashMap;

use crate::node::{File, LinkGroup};
use crate::path::TreePath;

/// Collects the names of files whose link count is above one.
#[derive(Default)]
pub(super) struct Links {
    by_inode: HashMap<(u64, u64), Vec<(TreePath, File)>>,
}

impl Links {
    pub(super) fn add(&mut self, device: u64, inode: u64, path: TreePath, file: File) {
        self.by_inode.entry((device, inode)).or_default().push((path, file));
    }

    /// The files by path. Names of one inode get the same content, metadata and group, those of the first path; a file
    /// whose other names are outside of the tree is an ordinary file.
    pub(super) fn finish(self) -> impl Iterator<Item = (TreePath, File)> {
        self.by_inode.into_values().flat_map(|mut names| {
            names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            let first = names.first().map(|(path, file)| {
                let link = (names.len() > 1).then(|| group(path));
                File { link, ..*file }
            });
            names.into_iter().map(move |(path, file)| (path, first.unwrap_or(file)))
        })
    }
}

/// The number of a group: from its first path, so that it is the same in every import.
pub(crate) fn group(path: &TreePath) -> LinkGroup {
    let hash = blake3::hash(path.as_bytes());
    LinkGroup(hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
}
