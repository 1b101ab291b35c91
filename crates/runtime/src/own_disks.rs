//! The disks that one machine can see.
//!
//! A workspace's machine gets new disks while it runs: a snapshot freezes the disk it writes to and gives it another.
//! Its QEMU does not see the directory of all disks. In its place it sees a private directory with a hard link to each
//! disk it reads or writes. A disk that is linked there later can be opened; a disk that is replaced or removed in the
//! common directory is replaced or removed there too, so that its space is freed.
//!
//! ```text
//!   disks/A.qcow2   disks/B.qcow2   disks/C.qcow2          on the host
//!        │               └──────────────┐
//!   workspaces/W/M/disks/A.qcow2   workspaces/W/N/disks/B.qcow2
//!        └── QEMU of M: disks/A.qcow2        └── QEMU of N: disks/B.qcow2
//! ```
#![expect(
    clippy::disallowed_methods,
    reason = "called `in_place`, by the start of a machine and by `ownership`"
)]

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The name of the private directory, in the machine's directory.
const NAME: &str = "disks";

/// The private disk directory of one machine.
#[derive(Clone, Debug)]
pub(crate) struct OwnDisks {
    dir: PathBuf,
}

impl OwnDisks {
    /// Of the machine with this directory.
    pub fn of(machine: &Path) -> Self {
        Self { dir: machine.join(NAME) }
    }

    /// Its path on the host.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the directory exists. Machines started by earlier versions have none and see all disks.
    pub fn exist(&self) -> io::Result<bool> {
        self.dir.try_exists()
    }

    /// Creates the directory, which `group` may enter.
    pub fn make(&self, group: Option<u32>) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if let Some(group) = group {
            std::os::unix::fs::chown(&self.dir, None, Some(group))?;
            fs::set_permissions(&self.dir, Permissions::from_mode(0o710))?;
        }
        Ok(())
    }

    /// Links a disk, replacing an older file of the same name.
    pub fn add(&self, disk: &Path) -> io::Result<()> {
        let name = disk.file_name().ok_or_else(|| io::Error::other("a disk without a name"))?;
        let at = self.dir.join(name);
        if is_same(disk, &at)? {
            return Ok(());
        }
        let partial = self.dir.join(partial_name(name));
        gone(fs::remove_file(&partial))?;
        fs::hard_link(disk, &partial)?;
        fs::rename(partial, at)
    }

    /// Whether a linked disk was replaced or removed in `all`, the common directory.
    pub fn is_behind(&self, all: &Path) -> io::Result<bool> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            match is_same(&all.join(entry.file_name()), &entry.path()) {
                Ok(true) => {}
                Ok(false) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Links exactly the disks of `all` whose names are in `needed`.
    pub fn keep_up(&self, all: &Path, needed: &BTreeSet<OsString>) -> io::Result<()> {
        for name in needed {
            self.add(&all.join(name))?;
        }
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if !needed.contains(&entry.file_name()) {
                gone(fs::remove_file(entry.path()))?;
            }
        }
        Ok(())
    }
}

fn partial_name(name: &OsStr) -> OsString {
    let mut partial = OsString::from(".");
    partial.push(name);
    partial
}

/// Whether two paths are the same file. Symbolic links are not followed.
fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let about = one.symlink_metadata()?;
    match other.symlink_metadata() {
        Ok(found) => Ok((found.dev(), found.ino()) == (about.dev(), about.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(own: &OwnDisks) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(own.dir())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn needed(names: &[&str]) -> BTreeSet<OsString> {
        names.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_machine_sees_its_own_disks_and_what_replaces_them() {
        let home = tempfile::tempdir().unwrap();
        let (all, machine) = (home.path().join("all"), home.path().join("machine"));
        fs::create_dir(&all).unwrap();
        fs::create_dir(&machine).unwrap();
        for name in ["a", "b", "c"] {
            fs::write(all.join(name), name).unwrap();
        }
        let own = OwnDisks::of(&machine);
        assert!(!own.exist().unwrap());
        own.make(None).unwrap();
        own.add(&all.join("a")).unwrap();
        own.add(&all.join("b")).unwrap();
        own.add(&all.join("b")).unwrap();
        assert_eq!(names(&own), ["a", "b"]);
        assert_eq!(fs::metadata(all.join("a")).unwrap().nlink(), 2);

        // One is rewritten, as a merge of disks does, and another one is not needed any more.
        let open = fs::File::open(own.dir().join("b")).unwrap();
        fs::write(all.join("new"), "rewritten").unwrap();
        fs::rename(all.join("new"), all.join("b")).unwrap();
        assert!(own.is_behind(&all).unwrap());
        own.keep_up(&all, &needed(&["b", "c"])).unwrap();
        assert!(!own.is_behind(&all).unwrap());
        assert_eq!(names(&own), ["b", "c"]);
        assert_eq!(fs::read_to_string(own.dir().join("b")).unwrap(), "rewritten");
        assert_eq!(open.metadata().unwrap().nlink(), 0, "nothing keeps the old one but who reads it");
        assert_eq!(fs::metadata(all.join("a")).unwrap().nlink(), 1);
    }

    #[test]
    fn a_disk_that_is_not_there_is_an_error_and_a_link_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let own = OwnDisks::of(home.path());
        own.make(None).unwrap();
        assert!(own.add(&home.path().join("none")).is_err());
        let (secret, volume) = (home.path().join("secret"), home.path().join("v.zvol"));
        fs::write(&secret, "x").unwrap();
        std::os::unix::fs::symlink(&secret, &volume).unwrap();
        own.add(&volume).unwrap();
        assert!(own.dir().join("v.zvol").symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::metadata(&secret).unwrap().nlink(), 1);
    }
}
