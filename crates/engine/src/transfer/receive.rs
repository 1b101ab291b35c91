//! Out of a workspace onto the host.
//!
//! Everything is first written into a new file or directory beside its place, and gets its name when it is complete. A
//! directory that is there already is merged with the new one then: directories together, files replaced one by one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use agentiso_core::ports::link::{FileKind, Link, Metadata, TreeEntry, TreeItem, TreeKind};
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure};
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use tokio::sync::mpsc;

use super::budget::{Budget, Limits};
use super::directories::Directories;
use super::host::{Place, below};
use super::{Moved, trouble};
use crate::actions::about_path;

/// Pieces or batches that wait for the disk.
const WAITING: usize = 8;

/// Items handed over to the thread that writes, at once.
const BATCH: usize = 256;

pub(super) async fn receive(
    guest: &Link,
    from: &str,
    to: &Place,
    limits: Limits,
    progress: &Arc<dyn Progress>,
) -> Result<Moved, Failure> {
    let about = |error| about_path(error, from);
    let metadata = guest.stat(from.as_bytes(), true).await.map_err(about)?;
    match metadata.kind {
        FileKind::Directory => receive_tree(guest, from, to, limits, progress).await,
        FileKind::File => receive_file(guest, from, to, &metadata, limits, progress).await,
        _ => Err(Failure::new(Code::InvalidArgument, format!("{from} is neither file nor directory"))),
    }
}

async fn receive_file(
    guest: &Link,
    from: &str,
    to: &Place,
    metadata: &Metadata,
    limits: Limits,
    progress: &Arc<dyn Progress>,
) -> Result<Moved, Failure> {
    to.require_no_directory()?;
    progress.step(&format!("Copying {from}"), Some(metadata.size));
    let about = |error| about_path(error, from);
    let unfinished = to.new_file()?;
    let file = File::from(unfinished.fd().map_err(|error| trouble(&to.path, &error))?);
    let place = unfinished.fd().map_err(|error| trouble(&to.path, &error))?;
    let mut budget = Budget::new(limits, place);
    let mut reader = guest.read_file(from.as_bytes(), 0, None).await.map_err(about)?;
    let (sender, mut pieces) = mpsc::channel::<Vec<u8>>(WAITING);
    let (mode, modified_ns) = (metadata.mode, metadata.modified_ns);
    let writer = tokio::task::spawn_blocking(move || -> io::Result<u64> {
        let mut file = file;
        let mut bytes = 0;
        while let Some(piece) = pieces.blocking_recv() {
            budget.bytes(piece.len() as u64)?;
            file.write_all(&piece)?;
            bytes += piece.len() as u64;
        }
        dress(file.as_fd(), mode, modified_ns)?;
        file.sync_data()?;
        Ok(bytes)
    });
    while let Some(piece) = reader.next().await.map_err(about)? {
        progress.advance(piece.len() as u64);
        if sender.send(piece.to_vec()).await.is_err() {
            break;
        }
    }
    drop(sender);
    let bytes = finished(writer.await, to)?;
    to.finish(unfinished)?;
    progress.done("");
    Ok(Moved { bytes, files: 1, ..Moved::default() })
}

async fn receive_tree(
    guest: &Link,
    from: &str,
    to: &Place,
    limits: Limits,
    progress: &Arc<dyn Progress>,
) -> Result<Moved, Failure> {
    let merges = to.require_free_or_directory()?;
    progress.step(&format!("Copying {from}"), None);
    let about = |error| about_path(error, from);
    let unfinished = to.new_directory()?;
    let top = unfinished.fd().map_err(|error| trouble(&to.path, &error))?;
    let place = unfinished.fd().map_err(|error| trouble(&to.path, &error))?;
    let mut reader = guest.send_tree(from.as_bytes()).await.map_err(about)?;
    let (sender, mut batches) = mpsc::channel::<Vec<TreeItem>>(WAITING);
    let writer = tokio::task::spawn_blocking(move || {
        let mut tree = Tree::new(top, merges, Budget::new(limits, place));
        while let Some(batch) = batches.blocking_recv() {
            batch.into_iter().try_for_each(|item| tree.take(item))?;
        }
        tree.finish()
    });
    let mut batch = Vec::new();
    while let Some(item) = reader.next().await.map_err(about)? {
        if let TreeItem::Content(bytes) = &item {
            progress.advance(bytes.len() as u64);
        }
        batch.push(item);
        if batch.len() >= BATCH && sender.send(std::mem::take(&mut batch)).await.is_err() {
            break;
        }
    }
    // A thread that has failed says why below.
    let _ = sender.send(batch).await;
    drop(sender);
    let moved = finished(writer.await, to)?;
    match merges {
        true => to.merge(unfinished)?,
        false => to.finish(unfinished)?,
    }
    progress.done("");
    Ok(moved)
}

fn finished<T>(written: Result<io::Result<T>, tokio::task::JoinError>, to: &Place) -> Result<T, Failure> {
    let written = written.map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
    written.map_err(|error| trouble(&to.path, &error))
}

/// Sets mode and time. Bits that would let others become the owner are not brought out of a guest.
fn dress(fd: BorrowedFd<'_>, mode: u32, modified_ns: i64) -> io::Result<()> {
    rustix::fs::fchmod(fd, Mode::from_raw_mode(mode & 0o777))?;
    let modified = Timespec {
        tv_sec: modified_ns.div_euclid(1_000_000_000),
        tv_nsec: modified_ns.rem_euclid(1_000_000_000),
    };
    let unchanged = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let times = Timestamps { last_access: unchanged, last_modification: modified };
    Ok(rustix::fs::futimens(fd, &times)?)
}

/// A directory that is being filled with what a guest sends.
struct Tree {
    top: OwnedFd,
    /// The file whose content comes, with its mode and time.
    file: Option<(File, u32, i64)>,
    /// Directories, with their modes and times, which are set at the end: a mode may forbid, and every new entry
    /// changes the time.
    directories: Directories,
    /// What it is merged with keeps its own mode and time.
    merges: bool,
    moved: Moved,
    budget: Budget,
}

impl Tree {
    fn new(top: OwnedFd, merges: bool, budget: Budget) -> Self {
        Self { top, file: None, directories: Directories::new(), merges, moved: Moved::default(), budget }
    }

    fn take(&mut self, item: TreeItem) -> io::Result<()> {
        match item {
            TreeItem::Entry(entry) => {
                self.close_file()?;
                self.budget.entry()?;
                self.entry(&entry)
            }
            TreeItem::Content(bytes) => {
                self.moved.bytes += bytes.len() as u64;
                self.budget.bytes(bytes.len() as u64)?;
                match &mut self.file {
                    Some((file, _, _)) => file.write_all(&bytes),
                    None => Ok(()),
                }
            }
            TreeItem::End => Ok(()),
        }
    }

    /// Sets what remains to be set.
    fn finish(mut self) -> io::Result<Moved> {
        self.close_file()?;
        let top = &self.top;
        self.directories.try_for_each(|path, mode, modified_ns| {
            // The owner can always enter and empty what it has copied.
            dress(below(top, path)?.as_fd(), mode | 0o700, modified_ns)
        })?;
        Ok(self.moved)
    }

    fn close_file(&mut self) -> io::Result<()> {
        match self.file.take() {
            Some((file, mode, modified_ns)) => dress(file.as_fd(), mode, modified_ns),
            None => Ok(()),
        }
    }

    fn entry(&mut self, entry: &TreeEntry) -> io::Result<()> {
        let path = Path::new(OsStr::from_bytes(&entry.path));
        let Some(name) = path.file_name() else {
            if !self.merges && entry.kind == TreeKind::Directory {
                self.directories.note(OsStr::new(""), entry.mode, entry.modified_ns)?;
            }
            return Ok(());
        };
        let parent = path.parent().unwrap_or(Path::new("")).as_os_str();
        let directory = below(&self.top, parent)?;
        match &entry.kind {
            TreeKind::Directory => {
                self.directories.note(path.as_os_str(), entry.mode, entry.modified_ns)?;
                rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(0o700))?;
            }
            TreeKind::File { .. } => {
                let flags =
                    OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&directory, name, flags, Mode::from_raw_mode(0o600))?;
                self.file = Some((file.into(), entry.mode, entry.modified_ns));
            }
            TreeKind::Symlink { target } => {
                rustix::fs::symlinkat(OsStr::from_bytes(target), &directory, name)?;
            }
            TreeKind::Hardlink { target } => {
                let target = Path::new(OsStr::from_bytes(target));
                let Some(old) = target.file_name() else { return Ok(()) };
                let holder = below(&self.top, target.parent().unwrap_or(Path::new("")).as_os_str())?;
                match rustix::fs::linkat(&holder, old, &directory, name, AtFlags::empty()) {
                    // Another name of a pipe or a device, which was left out.
                    Err(Errno::NOENT) => {
                        self.moved.skipped.note(&entry.path);
                        return Ok(());
                    }
                    linked => linked?,
                }
            }
            // Devices, pipes and sockets are of no use on the host.
            _ => {
                self.moved.skipped.note(&entry.path);
                return Ok(());
            }
        }
        self.moved.files += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: TreeKind) -> TreeItem {
        TreeItem::Entry(TreeEntry {
            path: path.as_bytes().to_vec(),
            kind,
            mode: 0o4777,
            uid: 0,
            gid: 0,
            modified_ns: 0,
            xattrs: Vec::new(),
        })
    }

    fn tree(dir: &Path) -> Tree {
        limited(dir, 1 << 20, 100)
    }

    fn limited(dir: &Path, bytes: u64, files: u64) -> Tree {
        let top = OwnedFd::from(File::open(dir).unwrap());
        let place = top.try_clone().unwrap();
        let budget = Budget::new(Limits { bytes, files, reserve: 0 }, place);
        Tree::new(top, false, budget)
    }

    #[test]
    fn a_link_a_guest_sends_leads_nowhere_for_what_comes_after_it() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut tree = tree(dir.path());
        let target = outside.path().as_os_str().as_bytes().to_vec();
        tree.take(entry("link", TreeKind::Symlink { target })).unwrap();
        assert!(tree.take(entry("link/file", TreeKind::File { size: 1 })).is_err());
        assert!(tree.take(entry("link/more", TreeKind::Directory)).is_err());
        assert!(tree.take(entry("hard", TreeKind::Hardlink { target: b"link/x".to_vec() })).is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_guest_that_sends_without_end_is_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = limited(dir.path(), 5, 2);
        tree.take(entry("file", TreeKind::File { size: 9 })).unwrap();
        tree.take(TreeItem::Content(b"12345".to_vec())).unwrap();
        assert!(tree.take(TreeItem::Content(b"6".to_vec())).is_err());
        assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"12345");
        tree.take(entry("directory", TreeKind::Directory)).unwrap();
        assert!(tree.take(entry("link", TreeKind::Symlink { target: b"x".to_vec() })).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn nothing_is_written_twice_and_no_special_bits_come_out() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let mut tree = tree(dir.path());
        tree.take(entry("file", TreeKind::File { size: 2 })).unwrap();
        tree.take(TreeItem::Content(b"hi".to_vec())).unwrap();
        assert!(tree.take(entry("file", TreeKind::File { size: 2 })).is_err());
        let mode = std::fs::metadata(dir.path().join("file")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7000, 0);
        assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"hi");
    }
}
