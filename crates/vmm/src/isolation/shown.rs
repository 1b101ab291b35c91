//! The files that a QEMU can see.

use std::path::{Path, PathBuf};

use crate::hardware::{Accel, Hardware};
use crate::qemu::{BootSource, DiskFile, Memory, OwnDisks};

/// Devices that every QEMU uses.
const DEVICES: [&str; 2] = ["/dev/null", "/dev/urandom"];
const KVM: &str = "/dev/kvm";

/// What QEMU may do with a visible file.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Access {
    /// Read and execute.
    Read,
    /// Read and write.
    Write,
    /// Read and write files in a directory, except those that are listed separately.
    WriteWithin,
}

/// A file or directory of the host that QEMU sees.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Shown {
    /// Its path on the host.
    pub host: PathBuf,
    /// Its path in QEMU's root.
    pub at: PathBuf,
    /// The permitted access.
    pub access: Access,
}

impl Shown {
    /// A file with the same path on the host and in QEMU's root.
    pub fn in_place(path: impl Into<PathBuf>, access: Access) -> Self {
        let path = path.into();
        Self { host: path.clone(), at: path, access }
    }
}

/// The files of one machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Files<'a> {
    pub hardware: Hardware,
    pub boot: &'a BootSource,
    pub memory: &'a Memory,
    pub disk: &'a DiskFile,
}

impl Files<'_> {
    /// The files that the machine's QEMU needs, each directory before its content.
    pub fn shown(&self) -> Vec<Shown> {
        let mut shown: Vec<Shown> =
            DEVICES.into_iter().map(|device| Shown::in_place(device, Access::Write)).collect();
        if self.hardware.accel == Accel::Kvm {
            shown.push(Shown::in_place(KVM, Access::Write));
        }
        if let BootSource::Kernel(boot) = self.boot {
            shown.extend([&boot.kernel, &boot.initrd].map(|file| Shown::in_place(file, Access::Read)));
        }
        match self.memory {
            Memory::Anonymous => {}
            Memory::Private(file) => shown.push(Shown::in_place(file, Access::Read)),
            Memory::Shared(file) => shown.push(Shown::in_place(file, Access::Write)),
        }
        if let DiskFile::File { path, below, own, .. } = self.disk {
            shown.extend(disk(path, below, own.as_ref()));
        }
        shown
    }
}

/// A disk that may be replaced while QEMU runs is in the machine's private directory, which is mounted in place of the
/// directory of all disks. Backing files are read-only in either case.
fn disk(path: &Path, below: &[PathBuf], own: Option<&OwnDisks>) -> Vec<Shown> {
    let mut shown = Vec::new();
    match own {
        Some(OwnDisks { dir, at }) => shown.extend(at.iter().map(|at| {
            let (host, at) = (dir.clone(), at.clone());
            Shown { host, at, access: Access::WriteWithin }
        })),
        None => shown.push(Shown::in_place(path, Access::Write)),
    }
    shown.extend(below.iter().map(|file| Shown::in_place(file, Access::Read)));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::LinkKind;
    use crate::qemu::Boot;

    fn shown(accel: Accel, boot: &BootSource, memory: &Memory, disk: &DiskFile) -> Vec<(String, Access)> {
        let hardware = Hardware { accel, link: LinkKind::Serial, vcpus: 1, memory_mb: 256 };
        let shown = Files { hardware, boot, memory, disk }.shown();
        shown
            .into_iter()
            .map(|one| {
                let (host, at) = (one.host.display().to_string(), one.at.display().to_string());
                (if host == at { at } else { format!("{host} at {at}") }, one.access)
            })
            .collect()
    }

    fn layered(own: Option<OwnDisks>) -> DiskFile {
        let below = vec!["/h/disks/a.qcow2".into(), "/h/images/debian/rootfs.raw".into()];
        DiskFile::File { path: "/h/disks/b.qcow2".into(), format: "qcow2", below, own }
    }

    #[test]
    fn a_clone_writes_to_its_disk_and_reads_what_that_and_its_memory_stand_on() {
        let memory = Memory::Private("/h/bases/ram".into());
        let all = shown(Accel::Tcg, &BootSource::Incoming, &memory, &layered(None));
        let wanted = [
            ("/dev/null", Access::Write),
            ("/dev/urandom", Access::Write),
            ("/h/bases/ram", Access::Read),
            ("/h/disks/b.qcow2", Access::Write),
            ("/h/disks/a.qcow2", Access::Read),
            ("/h/images/debian/rootfs.raw", Access::Read),
        ];
        assert_eq!(all, wanted.map(|(path, access)| (path.to_owned(), access)));
    }

    #[test]
    fn a_machine_that_stays_sees_its_own_disks_in_place_of_all() {
        let own = OwnDisks { dir: "/h/workspaces/w/m/disks".into(), at: vec!["/h/disks".into()] };
        let disk = layered(Some(own));
        let all = shown(Accel::Tcg, &BootSource::Incoming, &Memory::Anonymous, &disk);
        assert!(all.contains(&("/h/workspaces/w/m/disks at /h/disks".to_owned(), Access::WriteWithin)));
        assert!(all.contains(&("/h/disks/a.qcow2".to_owned(), Access::Read)));
        assert!(all.iter().all(|(path, _)| path != "/h/disks/b.qcow2"), "{all:?}");
    }

    #[test]
    fn what_is_not_used_is_not_shown() {
        let boot = BootSource::Kernel(Boot { kernel: "/k".into(), initrd: "/i".into(), tsc_khz: None });
        let memory = Memory::Shared("/t/ram".into());
        let all = shown(Accel::Kvm, &boot, &memory, &DiskFile::Blank);
        let paths: Vec<&str> = all.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["/dev/null", "/dev/urandom", "/dev/kvm", "/k", "/i", "/t/ram"]);
        assert_eq!(all[5].1, Access::Write, "a template is made in its file");
        let clone = shown(Accel::Tcg, &BootSource::Incoming, &Memory::Anonymous, &DiskFile::Blank);
        assert_eq!(clone.len(), DEVICES.len());
    }
}
