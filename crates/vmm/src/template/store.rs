//! The directory of templates.
#![expect(
    clippy::disallowed_methods,
    reason = "what async code calls runs `in_place`; `begin` and `publish` run on blocking threads"
)]

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use agentiso_blocking::in_place;
use rustix::fs::{FlockOperation, flock};

use super::manifest::{Condition, Manifest};
use crate::VmError;
use crate::qemu::Credentials;
use crate::users::make_base;

pub(super) const RAM: &str = "ram";
pub(super) const DEVICE: &str = "device";
pub(super) const DISK: &str = "disk";

/// All templates of an installation.
#[derive(Clone, Debug)]
pub struct Templates {
    root: PathBuf,
}

/// The result of verifying all templates.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Verified {
    /// The number of intact templates.
    pub sound: usize,
    /// Damaged templates, which were removed, each with the reason.
    pub removed: Vec<String>,
    /// Templates that could not be read and were kept, each with the reason.
    pub unread: Vec<String>,
}

/// A template that can be cloned.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Template {
    dir: PathBuf,
}

impl Template {
    /// The memory.
    pub fn ram(&self) -> PathBuf {
        self.dir.join(RAM)
    }

    /// The device state.
    pub fn device(&self) -> PathBuf {
        self.dir.join(DEVICE)
    }

    /// The disk layer that belongs to the memory of a warm template.
    pub fn disk(&self) -> PathBuf {
        self.dir.join(DISK)
    }
}

/// A template in progress. Dropping it before it is published removes it.
#[derive(Debug)]
pub(super) struct Partial {
    pub dir: PathBuf,
    target: PathBuf,
    lock_path: PathBuf,
    /// The group that may read it, if QEMU runs as another user.
    group: Option<u32>,
    _lock: File,
}

impl Templates {
    /// Opens the directory, creating it if it is missing.
    pub fn open(root: &Path) -> io::Result<Self> {
        in_place(|| fs::DirBuilder::new().recursive(true).mode(0o700).create(root))?;
        Ok(Self { root: root.to_owned() })
    }

    /// Returns a template if it exists and is intact. A damaged one is removed.
    pub fn get(&self, key: &str) -> Option<Template> {
        in_place(|| self.get_blocking(key))
    }

    fn get_blocking(&self, key: &str) -> Option<Template> {
        let dir = self.root.join(key);
        match check(&dir) {
            Ok(()) => {
                Manifest::touch(&dir);
                Some(Template { dir })
            }
            Err(error) if is_damage(&error) => {
                if dir.exists() {
                    tracing::warn!(template = key, %error, "removing a damaged template");
                    self.remove(key);
                }
                None
            }
            Err(error) => {
                tracing::warn!(template = key, %error, "could not read a template");
                None
            }
        }
    }

    /// Removes a template. Machines that were cloned from it have its files open and continue to run.
    pub fn remove(&self, key: &str) {
        // What is left after a failure is found damaged at the next start, and removed then.
        let _ = in_place(|| fs::remove_dir_all(self.root.join(key)));
    }

    /// Verifies every template and removes damaged ones. One that cannot be read is kept.
    pub fn verify_all(&self) -> io::Result<Verified> {
        in_place(|| self.verify_all_blocking())
    }

    fn verify_all_blocking(&self) -> io::Result<Verified> {
        let mut verified = Verified::default();
        for (key, dir) in self.entries()? {
            match Manifest::read(&dir).and_then(|manifest| manifest.verify(&dir)) {
                Ok(fresh) => {
                    fresh.keep(&dir);
                    verified.sound += 1;
                }
                Err(error) if is_damage(&error) => {
                    self.remove(&key);
                    verified.removed.push(format!("{key}: {error}"));
                }
                Err(error) => verified.unread.push(format!("{key}: {error}")),
            }
        }
        Ok(verified)
    }

    /// Removes the least recently used templates, except those in `keep`, until the rest fits into `max_bytes`, and partial
    /// templates of killed processes.
    pub fn collect(&self, max_bytes: u64, keep: &[&str]) -> io::Result<()> {
        in_place(|| self.collect_blocking(max_bytes, keep))
    }

    fn collect_blocking(&self, max_bytes: u64, keep: &[&str]) -> io::Result<()> {
        let mut entries: Vec<_> = self
            .entries()?
            .into_iter()
            .map(|(key, dir)| (Manifest::last_used(&dir), size_on_disk(&dir), key))
            .collect();
        entries.sort();
        let mut total: u64 = entries.iter().map(|(_, size, _)| size).sum();
        for (_, size, key) in entries {
            if total > max_bytes && !keep.contains(&key.as_str()) {
                self.remove(&key);
                total -= size;
            }
        }
        self.sweep()
    }

    /// Starts to make a template. Waits if another process is making the same one.
    pub(super) fn begin(&self, key: &str, owner: Option<Credentials>) -> Result<Partial, VmError> {
        let make = || {
            let lock = self.hold(key)?;
            let dir = self.root.join(format!(".{key}.partial"));
            remove_if_there(&dir)?;
            fs::DirBuilder::new().mode(0o700).create(&dir)?;
            if let Some(Credentials { uid, gid, .. }) = owner {
                std::os::unix::fs::chown(&dir, Some(uid), Some(gid))?;
            }
            let (target, lock_path, group) =
                (self.root.join(key), self.lock_path(key), owner.map(|owner| owner.gid));
            Ok(Partial { dir, target, lock_path, group, _lock: lock })
        };
        make().map_err(VmError::io("prepare a template directory"))
    }

    /// Locks a key, waiting for the current holder.
    fn hold(&self, key: &str) -> io::Result<File> {
        loop {
            let lock = self.lock(key)?;
            flock(&lock, FlockOperation::LockExclusive)?;
            // The last holder may have removed the lock file.
            if self.is_current(&lock, key) {
                return Ok(lock);
            }
        }
    }

    fn is_current(&self, lock: &File, key: &str) -> bool {
        let inode = |meta: io::Result<fs::Metadata>| meta.map(|meta| meta.ino()).ok();
        inode(lock.metadata()) == inode(fs::metadata(self.lock_path(key)))
    }

    fn lock(&self, key: &str) -> io::Result<File> {
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(self.lock_path(key))
    }

    fn lock_path(&self, key: &str) -> PathBuf {
        self.root.join(format!(".{key}.lock"))
    }

    fn entries(&self) -> io::Result<Vec<(String, PathBuf)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') && entry.file_type()?.is_dir() {
                found.push((name, entry.path()));
            }
        }
        Ok(found)
    }

    /// Removes partial directories and lock files that no process has locked.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.root)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let Some(key) = name.strip_prefix('.').and_then(|name| name.strip_suffix(".lock")) else {
                continue;
            };
            let lock = self.lock(key)?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() && self.is_current(&lock, key) {
                remove_if_there(&self.root.join(format!(".{key}.partial")))?;
                fs::remove_file(self.root.join(&name))?;
            }
        }
        Ok(())
    }
}

impl Partial {
    /// Writes the manifest and makes the template visible.
    pub fn publish(
        self,
        files: &[&str],
        description: String,
        image: Option<PathBuf>,
    ) -> io::Result<Template> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if !files.iter().any(|name| entry.file_name() == *name) {
                fs::remove_file(entry.path())?;
            }
        }
        if let Some(group) = self.group {
            files.iter().try_for_each(|name| make_base(&self.dir.join(name), group))?;
            std::os::unix::fs::chown(&self.dir, Some(0), Some(group))?;
            fs::set_permissions(&self.dir, Permissions::from_mode(0o2710))?;
        }
        Manifest::of(&self.dir, files, description, image)?.write(&self.dir)?;
        remove_if_there(&self.target)?;
        fs::rename(&self.dir, &self.target)?;
        Ok(Template { dir: self.target.clone() })
    }

    /// The unpublished template, for testing it.
    pub fn as_template(&self) -> Template {
        Template { dir: self.dir.clone() }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        in_place(|| {
            let _ = fs::remove_dir_all(&self.dir);
            let _ = fs::remove_file(&self.lock_path);
        });
    }
}

fn check(dir: &Path) -> io::Result<()> {
    let manifest = Manifest::read(dir)?;
    match manifest.condition(dir)? {
        Condition::Sound => Ok(()),
        Condition::Doubtful => {
            manifest.verify(dir)?.keep(dir);
            Ok(())
        }
    }
}

/// Whether an error means that a template is damaged, not that it could not be read or the disk is full.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}

fn remove_if_there(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn size_on_disk(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.blocks() * 512).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn templates() -> (tempfile::TempDir, Templates) {
        let dir = tempfile::tempdir().unwrap();
        let templates = Templates::open(dir.path()).unwrap();
        (dir, templates)
    }

    fn publish(templates: &Templates, key: &str) -> Template {
        let partial = templates.begin(key, None).unwrap();
        fs::write(partial.dir.join(RAM), vec![1; 64 * 1024]).unwrap();
        fs::write(partial.dir.join(DEVICE), b"state").unwrap();
        fs::write(partial.dir.join("console.log"), b"scratch").unwrap();
        partial.publish(&[RAM, DEVICE], key.to_owned(), None).unwrap()
    }

    #[test]
    fn a_published_template_is_found_and_holds_only_its_files() {
        let (_dir, templates) = templates();
        let template = publish(&templates, "k1");
        assert_eq!(templates.get("k1"), Some(template.clone()));
        assert!(!template.ram().with_file_name("console.log").exists());
        assert_eq!(templates.get("k2"), None);
    }

    #[test]
    fn an_abandoned_template_leaves_nothing_behind() {
        let (dir, templates) = templates();
        let partial = templates.begin("k", None).unwrap();
        fs::write(partial.dir.join(RAM), b"half").unwrap();
        drop(partial);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_template_is_removed_not_used() {
        let (_dir, templates) = templates();
        let template = publish(&templates, "k");
        fs::write(template.ram(), vec![2; 64 * 1024]).unwrap();
        assert_eq!(templates.get("k"), None);
        assert!(!template.ram().exists());
        let template = publish(&templates, "k");
        OpenOptions::new().write(true).open(template.ram()).unwrap().set_len(10).unwrap();
        assert_eq!(templates.verify_all().unwrap().sound, 0);
    }

    #[test]
    fn a_host_that_cannot_write_or_read_does_not_make_a_template_damaged() {
        let (_dir, templates) = templates();
        let template = publish(&templates, "k");
        // Its manifest cannot be written anew, as on a full disk.
        fs::create_dir(template.dir.join(".template.json")).unwrap();
        File::options()
            .write(true)
            .open(template.ram())
            .unwrap()
            .set_modified(std::time::UNIX_EPOCH)
            .unwrap();
        assert_eq!(templates.get("k"), Some(template.clone()));
        assert_eq!(templates.verify_all().unwrap(), Verified { sound: 1, ..Verified::default() });
        // It cannot be read.
        fs::rename(template.ram(), template.dir.join("elsewhere")).unwrap();
        fs::create_dir(template.ram()).unwrap();
        assert_eq!(templates.get("k"), None);
        let verified = templates.verify_all().unwrap();
        assert_eq!((verified.sound, verified.removed.len(), verified.unread.len()), (0, 0, 1));
        assert!(template.ram().exists());
    }

    #[test]
    fn the_least_recently_used_go_first_when_space_is_short() {
        let (_dir, templates) = templates();
        for key in ["old", "kept", "new"] {
            publish(&templates, key);
        }
        for (key, age) in [("old", 300), ("kept", 200), ("new", 100)] {
            let file = File::open(templates.root.join(key).join("template.json")).unwrap();
            file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
        }
        templates.collect(0, &["kept"]).unwrap();
        assert_eq!(templates.get("old"), None);
        assert_eq!(templates.get("new"), None);
        assert!(templates.get("kept").is_some());
    }
}
