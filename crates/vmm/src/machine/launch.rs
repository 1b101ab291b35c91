//! The inputs of a machine's start.

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

/// What all machines of this host share.
#[derive(Clone, Debug)]
pub struct Host {
    /// The QEMU to use.
    pub qemu: Qemu,
    /// The users that QEMUs run as, if not the user of this process.
    pub users: Option<Arc<Users>>,
    /// How long a machine may take to answer, booted or restored, and for each further step of its start.
    pub boot_limit: Duration,
    /// Sets the limits of machines, unless they are turned off.
    pub confinement: Option<Arc<Confinement>>,
    /// Isolates QEMUs, if the host supports it.
    pub isolation: Option<Arc<Isolation>>,
}

impl Host {
    /// Claims a user for one machine; `None` if it runs as the user of this process.
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
    /// Identifies the pair.
    pub digest: String,
}

/// A machine to start.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// Its directory: sockets and logs go there.
    pub dir: &'a Path,
    /// Its hardware.
    pub hardware: Hardware,
    /// The user its QEMU runs as, if not the user of this process. It must own the files that QEMU writes.
    pub user: Option<User>,
    /// Its disk.
    pub disk: DiskFile,
    /// Where its memory lives.
    pub memory: Memory,
    /// Whether it ends with this process.
    pub ephemeral: bool,
    /// Adds a second serial port, named `spare`, for measuring what the transport carries.
    pub spare_port: bool,
}

impl Launch<'_> {
    /// Files that other machines may read too: its memory base and the backing files of its disk.
    pub(super) fn bases(&self) -> impl Iterator<Item = &Path> {
        let memory = self.memory.base();
        let disks = match &self.disk {
            DiskFile::File { below, .. } => below.as_slice(),
            DiskFile::Blank => &[],
        };
        memory.into_iter().chain(disks.iter().map(PathBuf::as_path))
    }

    /// The name of its cgroup, made from the name of its directory.
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
