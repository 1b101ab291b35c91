//! The files. Paths are resolved below the directory without ever following a symbolic link.

mod directory;
mod lock;
mod publish;
mod walk;

pub(crate) use directory::{Directory, Found, Stat, create_private};
pub(crate) use lock::WriteLock;
pub(crate) use publish::{Published, Staged};

/// How temporary files begin. They exist only while the write lock is held.
pub(crate) const TEMPORARY: &str = ".agentiso-";
