//! Out of a workspace onto the host.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure};
use agentiso_runtime::guest::{FileKind, Guest, TreeEntry, TreeItem, TreeKind};
use rustix::fs::{AtFlags, Mode, OFlags};
use tokio::sync::mpsc;

use super::host::{Place, below};
use super::{Moved, trouble};
use crate::actions::about_path;

/// Pieces that wait for the disk.
const WAITING: usize = 8;

pub(super) async fn receive(
    guest: &Guest,
    from: &str,
    to: &Place,
    progress: &Arc<dyn Progress>,
) -> Result<Moved, Failure> {
    let about = |error| about_path(error, from);
    let metadata = guest.stat(from.as_bytes(), true).await.map_err(about)?;
    match metadata.kind {
        FileKind::Directory => receive_tree(guest, from, to, progress).await,
        FileKind::File => receive_file(guest, from, to, metadata.size, progress).await,
        _ => Err(Failure::new(Code::InvalidArgument, format!("{from} is neither file nor directory"))),
    }
}

async fn receive_file(
    guest: &Guest,
    from: &str,
    to: &Place,
    size: u64,
    progress: &Arc<dyn Progress>,
) -> Result<Moved, Failure> {
    to.require_no_directory()?;
    progress.step(&format!("Copying {from}"), Some(size));
    let about = |error| about_path(error, from);
    let unfinished = to.new_file()?;
    let file = File::from(unfinished.fd().map_err(|error| trouble(&to.path, &error))?);
    let mut reader = guest.read_file(from.as_bytes(), 0, None).await.map_err(about)?;
    let (sender, mut pieces) = mpsc::channel::<Vec<u8>>(WAITING);
    let writer = tokio::task::spawn_blocking(move || -> io::Result<u64> {
        let mut file = file;
        let mut bytes = 0;
        while let Some(piece) = pieces.blocking_recv() {
            file.write_all(&piece)?;
            bytes += piece.len() as u64;
        }
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
    Ok(Moved { bytes, files: 1 })
}

async fn receive_tree(
    guest: &Guest,
    from: &str,
    to: &Place,
    progress: &Arc<dyn Progress>,
) -> Result<Moved, Failure> {
    to.require_free()?;
    progress.step(&format!("Copying {from}"), None);
    let about = |error| about_path(error, from);
    let unfinished = to.new_directory()?;
    let top = unfinished.fd().map_err(|error| trouble(&to.path, &error))?;
    let mut reader = guest.send_tree(from.as_bytes()).await.map_err(about)?;
    let (sender, mut items) = mpsc::channel::<TreeItem>(WAITING);
    let writer = tokio::task::spawn_blocking(move || {
        let mut tree = Tree { top, file: None, moved: Moved::default() };
        while let Some(item) = items.blocking_recv() {
            tree.take(item)?;
        }
        Ok(tree.moved)
    });
    while let Some(item) = reader.next().await.map_err(about)? {
        if let TreeItem::Content(bytes) = &item {
            progress.advance(bytes.len() as u64);
        }
        if sender.send(item).await.is_err() {
            break;
        }
    }
    drop(sender);
    let moved = finished(writer.await, to)?;
    to.finish(unfinished)?;
    progress.done("");
    Ok(moved)
}

fn finished<T>(written: Result<io::Result<T>, tokio::task::JoinError>, to: &Place) -> Result<T, Failure> {
    let written = written.map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
    written.map_err(|error| trouble(&to.path, &error))
}

/// A directory that is being filled with what a guest sends.
struct Tree {
    top: OwnedFd,
    file: Option<File>,
    moved: Moved,
}

impl Tree {
    fn take(&mut self, item: TreeItem) -> io::Result<()> {
        match item {
            TreeItem::Entry(entry) => {
                self.file = None;
                self.entry(&entry)
            }
            TreeItem::Content(bytes) => {
                self.moved.bytes += bytes.len() as u64;
                match &mut self.file {
                    Some(file) => file.write_all(&bytes),
                    None => Ok(()),
                }
            }
            TreeItem::End => Ok(()),
        }
    }

    fn entry(&mut self, entry: &TreeEntry) -> io::Result<()> {
        let path = Path::new(OsStr::from_bytes(&entry.path));
        let Some(name) = path.file_name() else { return Ok(()) };
        let parent = path.parent().unwrap_or(Path::new("")).as_os_str();
        let directory = below(&self.top, parent)?;
        // Bits that would let others become its owner are not brought out of a guest.
        let mode = Mode::from_raw_mode(entry.mode & 0o777 | 0o600);
        match &entry.kind {
            TreeKind::Directory => rustix::fs::mkdirat(&directory, name, mode | Mode::from_raw_mode(0o100))?,
            TreeKind::File { .. } => {
                let flags =
                    OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                self.file = Some(File::from(rustix::fs::openat(&directory, name, flags, mode)?));
            }
            TreeKind::Symlink { target } => {
                rustix::fs::symlinkat(OsStr::from_bytes(target), &directory, name)?;
            }
            TreeKind::Hardlink { target } => {
                let target = Path::new(OsStr::from_bytes(target));
                let Some(old) = target.file_name() else { return Ok(()) };
                let holder = below(&self.top, target.parent().unwrap_or(Path::new("")).as_os_str())?;
                rustix::fs::linkat(&holder, old, &directory, name, AtFlags::empty())?;
            }
            // Devices and pipes are of no use on the host.
            _ => return Ok(()),
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
        let top = OwnedFd::from(File::open(dir).unwrap());
        Tree { top, file: None, moved: Moved::default() }
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
