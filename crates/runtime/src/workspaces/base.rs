//! The backing files of disks and the bases of memory images.

use agentiso_core::{DiskId, Failure};
use agentiso_meta::{Disk, MetaError, Tx};
use agentiso_vmm::memory::MemoryFiles;
use agentiso_vmm::qemu::Memory;

use super::Workspaces;
use crate::pinned::disk_id_of;

/// The name of the base of a machine that was booted: no file, only zeros.
const ZEROS: &str = "zeros";

impl Workspaces {
    /// The memory images.
    pub(crate) fn memory(&self) -> MemoryFiles {
        MemoryFiles::new(self.installation.paths.memory_dir())
    }

    /// The backing disk of a disk.
    pub(crate) fn parent_of(&self, disk: DiskId) -> Result<Option<DiskId>, Failure> {
        let parent = self.installation.disks().parent(&self.installation.disk_path(disk))?;
        Ok(parent.and_then(|source| disk_id_of(source.path())))
    }

    /// The name of a machine's memory base, as it is stored.
    pub(crate) fn base_name(memory: &Memory) -> String {
        match memory {
            Memory::Private(path) | Memory::Shared(path) => {
                path.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
            Memory::Anonymous => ZEROS.to_owned(),
        }
    }

    /// Whether a base is only zeros and has no file.
    pub(super) fn is_zeros(name: &str) -> bool {
        name == ZEROS
    }

    /// The memory to start a machine with on a base.
    pub(crate) fn base_memory(&self, name: &str) -> Memory {
        if name == ZEROS {
            Memory::Anonymous
        } else {
            Memory::Private(self.installation.paths.bases_dir().join(name))
        }
    }
}

/// Adds a writable disk, and its backing disk if the database does not know it yet.
pub(crate) fn insert_disk(tx: &Tx<'_>, disk: DiskId, parent: Option<DiskId>) -> Result<(), MetaError> {
    if let Some(parent) = parent
        && tx.disk_if_known(parent)?.is_none()
    {
        tx.insert_disk(&Disk { id: parent, parent: None, frozen: true, span: 1, workspace: None })?;
    }
    tx.insert_disk(&Disk { id: disk, parent, frozen: false, span: 1, workspace: None })
}
