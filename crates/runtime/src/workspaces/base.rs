//! What the disks and memories of workspaces stand on.

use agentiso_core::{DiskId, Failure};
use agentiso_meta::{Disk, MetaError, Tx};
use agentiso_vmm::memory::MemoryFiles;
use agentiso_vmm::qemu::Memory;

use super::Workspaces;
use crate::hold::disk_id_of;

/// The name of what a memory image is based on, where it is nothing but zeros.
const ZEROS: &str = "zeros";

impl Workspaces {
    /// The memory images.
    pub(crate) fn memory(&self) -> MemoryFiles {
        MemoryFiles::new(self.installation.paths.memory_dir())
    }

    /// The disk that another one, just made, stands on.
    pub(crate) fn parent_of(&self, disk: DiskId) -> Result<Option<DiskId>, Failure> {
        let parent = self.installation.disks().parent(&self.installation.disk_path(disk))?;
        Ok(parent.and_then(|source| disk_id_of(source.path())))
    }

    /// The base of a machine's memory, as the database names it.
    pub(crate) fn base_name(memory: &Memory) -> String {
        match memory {
            Memory::Private(path) | Memory::Shared(path) => {
                path.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
            Memory::Anonymous => ZEROS.to_owned(),
        }
    }

    /// Whether the base of that name is no file.
    pub(super) fn is_zeros(name: &str) -> bool {
        name == ZEROS
    }

    /// The memory to start a machine on for a base of that name.
    pub(crate) fn base_memory(&self, name: &str) -> Memory {
        if name == ZEROS {
            Memory::Anonymous
        } else {
            Memory::Private(self.installation.paths.bases_dir().join(name))
        }
    }
}

/// Notes a writable disk, and the one it stands on should the database not know that one yet.
pub(crate) fn insert_disk(tx: &Tx<'_>, disk: DiskId, parent: Option<DiskId>) -> Result<(), MetaError> {
    if let Some(parent) = parent
        && tx.disk_if_known(parent)?.is_none()
    {
        tx.insert_disk(&Disk { id: parent, parent: None, frozen: true, span: 1, workspace: None })?;
    }
    tx.insert_disk(&Disk { id: disk, parent, frozen: false, span: 1, workspace: None })
}
