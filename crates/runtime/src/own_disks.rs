//! The disks one machine sees.
//!
//! A machine that stays gets new disks while it runs: a snapshot freezes the one it writes to, and it goes on with
//! another. Its QEMU does not see the directory of all disks, but one of its own in the same place, with a second name
//! (a hard link) for each file it reads or writes. What is linked there later, it can open; what was replaced or removed
//! among all disks is replaced or removed there too, so that nothing takes space for longer than it is needed.
//!
//! ```text
//!   disks/A.qcow2   disks/B.qcow2   disks/C.qcow2          on the host
//!        │               └──────────────┐
//!   workspaces/W/M/disks/A.qcow2   workspaces/W/N/disks/B.qcow2
//!        └── QEMU of M: disks/A.qcow2        └── QEMU of N: disks/B.qcow2
//! ```

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The directory in a machine's own.
const NAME: &str = "disks";

/// The disks one machine sees.
#[derive(Clone, Debug)]
pub(crate) struct OwnDisks {
    dir: PathBuf,
}

impl OwnDisks {
    /// Those of the machine with this directory.
    pub fn of(machine: &Path) -> Self {
        Self { dir: machine.join(NAME) }
    }

    /// Where they are on the host.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether there are any: a machine of an earlier version sees all disks.
    pub fn exist(&self) -> bool {
        self.dir.is_dir()
    }

    /// Makes the directory, which `group` may pass through.
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

    /// Lets the machine see a disk, as it is now.
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

    /// Whether one of them was replaced or removed among `all`.
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

    /// Lets the machine see those disks of `all`, and no others. `needed` are names.
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

/// Whether two names are of one file; links are not followed.
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
        assert!(!own.exist());
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
