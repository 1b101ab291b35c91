//! What is needed to start a machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentiso_blocking::in_place;
use agentiso_proto::RootDisk;

use crate::VmError;
use crate::confine::Confinement;
use crate::hardware::Hardware;
use crate::isolation::Isolation;
use crate::qemu::{DiskFile, Memory, Qemu};
use crate::users::{User, Users};

/// What is the same for all machines of this host.
#[derive(Clone, Debug)]
pub struct Host {
    /// The QEMU to use.
    pub qemu: Qemu,
    /// The users QEMUs run as, if not as ours.
    pub users: Option<Arc<Users>>,
    /// How long a machine may take until it answers, booted or restored, and for each step of its start after that.
    pub boot_limit: Duration,
    /// What holds machines to their limits, if anything is to.
    pub confinement: Option<Arc<Confinement>>,
    /// What keeps QEMUs from everything of the host that they do not need, if the host allows it.
    pub isolation: Option<Arc<Isolation>>,
}

impl Host {
    /// A user for one machine, if it has to have another one than ours.
    pub fn user(&self) -> Result<Option<User>, VmError> {
        let claimed = in_place(|| self.users.as_ref().map(|users| users.claim()).transpose());
        claimed.map_err(VmError::io("find a user id for the machine"))
    }
}

/// A kernel and its initramfs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GuestKernel {
    /// The kernel.
    pub kernel: PathBuf,
    /// The initramfs with the agent.
    pub initrd: PathBuf,
    /// Tells this pair from any other.
    pub digest: String,
}

/// One particular machine to start.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// Its directory: sockets and logs go there.
    pub dir: &'a Path,
    /// Its shape.
    pub hardware: Hardware,
    /// The user its QEMU runs as, if not ours. It must own what is written.
    pub user: Option<User>,
    /// Its disk.
    pub disk: DiskFile,
    /// Where its memory lives.
    pub memory: Memory,
    /// It ends with this process.
    pub ephemeral: bool,
    /// Adds a second serial port, named `spare`, for measuring what the transport carries.
    pub spare_port: bool,
}

impl Launch<'_> {
    /// Files of ours that other machines may read too: what its memory and its disk stand on.
    pub(super) fn bases(&self) -> impl Iterator<Item = &Path> {
        let memory = self.memory.base();
        let disks = match &self.disk {
            DiskFile::File { below, .. } => below.as_slice(),
            DiskFile::Blank => &[],
        };
        memory.into_iter().chain(disks.iter().map(PathBuf::as_path))
    }

    /// What its group is called: as its directory is, as far as a group may be.
    pub(super) fn group_name(&self) -> String {
        let name = self.dir.file_name().unwrap_or_default().to_string_lossy();
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        format!("machine-{}", name.chars().map(plain).collect::<String>())
    }
}

/// The disk of every machine, as its agent mounts it; `enter` makes it the root.
pub fn root_disk(enter: bool) -> RootDisk {
    RootDisk { device: "/dev/vda".to_owned(), fstype: "ext4".to_owned(), read_only: false, enter }
}
