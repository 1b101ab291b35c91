//! Directory trees in either direction.

use async_trait::async_trait;

use super::{LinkError, TreeEntry, TreeItem};

/// A tree from the guest. Its paths are safe to append to a directory, its link targets are not: a symbolic link may
/// point anywhere, so the receiver must not follow any.
#[async_trait]
pub trait TreeReader: Send {
    /// The next entry or piece of content, `None` when the tree is complete. Cancel safe.
    async fn next(&mut self) -> Result<Option<TreeItem>, LinkError>;
}

/// Takes a tree for the guest. Dropping it before [`Self::finish`] leaves what was written so far.
#[async_trait]
pub trait TreeWriter: Send {
    /// Sends an entry; the content of a regular file must follow.
    async fn entry(&mut self, entry: &TreeEntry) -> Result<(), LinkError>;

    /// Sends some content of the file whose entry came before.
    async fn content(&mut self, bytes: &[u8]) -> Result<(), LinkError>;

    /// Ends the tree, waits until the guest has all of it, and returns how many bytes of content were written.
    async fn finish(self: Box<Self>) -> Result<u64, LinkError>;
}
