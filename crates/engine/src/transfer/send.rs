//! From the host into a workspace.
//!
//! A thread walks the host's files and hands them over in batches: with thousands of small files, one hand-over per file
//! would cost more than the files.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use agentiso_core::ports::link::{
    ErrorKind, FileKind, Link, LinkError, TreeEntry, TreeKind, TreeOptions, WriteOptions,
};
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use tokio::sync::mpsc;

use super::host::Place;
use super::{Moved, PIECE, Skipped, trouble};
use crate::actions::about_path;

/// Batches that wait for the guest.
const WAITING: usize = 4;
/// The size an entry counts for in a batch, in bytes.
const ENTRY_WEIGHT: usize = 256;
/// Directories in directories.
const DEEPEST: usize = 256;

/// Something on its way into the guest.
enum Piece {
    Entry(TreeEntry),
    Content(Vec<u8>),
}

/// What the walking thread sends.
struct Outbox {
    sender: mpsc::Sender<Vec<Piece>>,
    batch: Vec<Piece>,
    weight: usize,
    skipped: Skipped,
}

impl Outbox {
    fn new(sender: mpsc::Sender<Vec<Piece>>) -> Self {
        Self { sender, batch: Vec::new(), weight: 0, skipped: Skipped::default() }
    }

    fn put(&mut self, piece: Piece) -> io::Result<()> {
        self.weight += match &piece {
            Piece::Entry(_) => ENTRY_WEIGHT,
            Piece::Content(bytes) => bytes.len(),
        };
        self.batch.push(piece);
        if self.weight >= PIECE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.weight = 0;
        let batch = std::mem::take(&mut self.batch);
        self.sender.blocking_send(batch).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

pub(super) async fn send(
    guest: &Link,
    from: &Place,
    to: &str,
    progress: &Arc<dyn Progress>,
) -> Result<Moved, Failure> {
    let file = from.open()?;
    let metadata = file.metadata().map_err(|error| trouble(&from.path, &error))?;
    let there = kind_there(guest, to).await?;
    if metadata.is_dir() {
        progress.step(&format!("Copying {}", from.path.display()), None);
        let top = OwnedFd::from(file);
        // An existing directory keeps its mode and time.
        let root = there.is_none().then(|| entry(Vec::new(), TreeKind::Directory, &metadata));
        let walk = move |outbox: &mut Outbox| {
            if let Some(root) = root {
                outbox.put(Piece::Entry(root))?;
            }
            walk(&top, &mut Vec::new(), 0, outbox)
        };
        return send_tree(guest, from, to, to, walk, progress).await;
    }
    progress.step(&format!("Copying {}", from.path.display()), Some(metadata.len()));
    match (there, to.rsplit_once('/')) {
        // As a tree of one file it keeps its time.
        (None | Some(FileKind::File), Some((above, name))) if !matches!(name, "" | "." | "..") => {
            let size = metadata.len();
            let only = entry(name.as_bytes().to_vec(), TreeKind::File { size }, &metadata);
            let walk = move |outbox: &mut Outbox| {
                outbox.put(Piece::Entry(only))?;
                content(file, size, outbox)
            };
            send_tree(guest, from, if above.is_empty() { "/" } else { above }, to, walk, progress).await
        }
        // The target of a link is replaced, not the link.
        _ => send_through(guest, file, metadata.mode() & 0o777, from, to, progress).await,
    }
}

/// Metadata of a path in the guest, without following a link; `None` if it does not exist.
async fn kind_there(guest: &Link, path: &str) -> Result<Option<FileKind>, Failure> {
    match guest.stat(path.as_bytes(), false).await {
        Ok(metadata) => Ok(Some(metadata.kind)),
        Err(LinkError::Guest(error)) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(about_path(error, path)),
    }
}

fn entry(path: Vec<u8>, kind: TreeKind, metadata: &std::fs::Metadata) -> TreeEntry {
    let modified_ns = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
    TreeEntry { path, kind, mode: metadata.mode() & 0o777, uid: 0, gid: 0, modified_ns, xattrs: Vec::new() }
}

/// Writes a file by its path in the guest, through any link.
async fn send_through(
    guest: &Link,
    mut file: File,
    mode: u32,
    from: &Place,
    to: &str,
    progress: &Arc<dyn Progress>,
) -> Result<Moved, Failure> {
    let about = |error| about_path(error, to);
    let options = WriteOptions { mode: Some(mode), append: false, parents: true };
    let mut writer = guest.write_file(to.as_bytes(), options).await.map_err(about)?;
    let (sender, mut pieces) = mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut buffer = vec![0; PIECE];
            let piece = match file.read(&mut buffer) {
                Ok(0) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(count) => {
                    buffer.truncate(count);
                    Ok(buffer)
                }
                Err(error) => Err(error),
            };
            let failed = piece.is_err();
            if sender.blocking_send(piece).is_err() || failed {
                return;
            }
        }
    });
    while let Some(piece) = pieces.recv().await {
        let bytes = piece.map_err(|error| trouble(&from.path, &error))?;
        writer.write(&bytes).await.map_err(about)?;
        progress.advance(bytes.len() as u64);
    }
    let bytes = writer.finish().await.map_err(about)?;
    progress.done("");
    Ok(Moved { bytes, files: 1, ..Moved::default() })
}

/// Sends what `walk` puts into its outbox into a directory of the guest, `into`. Errors are about `to`.
async fn send_tree(
    guest: &Link,
    from: &Place,
    into: &str,
    to: &str,
    walk: impl FnOnce(&mut Outbox) -> io::Result<()> + Send + 'static,
    progress: &Arc<dyn Progress>,
) -> Result<Moved, Failure> {
    let about = |error| about_path(error, to);
    let mut writer =
        guest.receive_tree(into.as_bytes(), TreeOptions { owners: false }).await.map_err(about)?;
    let (sender, mut batches) = mpsc::channel(WAITING);
    let walker = tokio::task::spawn_blocking(move || {
        let mut outbox = Outbox::new(sender);
        walk(&mut outbox).and_then(|()| outbox.flush())?;
        Ok(outbox.skipped)
    });
    let mut moved = Moved::default();
    while let Some(batch) = batches.recv().await {
        let mut bytes = 0;
        for piece in batch {
            match piece {
                Piece::Entry(entry) => {
                    // The directory itself is not one of the things in it.
                    moved.files += u64::from(!entry.path.is_empty());
                    writer.entry(&entry).await.map_err(about)?;
                }
                Piece::Content(content) => {
                    bytes += content.len() as u64;
                    writer.content(&content).await.map_err(about)?;
                }
            }
        }
        moved.bytes += bytes;
        progress.advance(bytes);
    }
    let walked: io::Result<Skipped> =
        walker.await.map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
    moved.skipped = walked.map_err(|error| trouble(&from.path, &error))?;
    writer.finish().await.map_err(about)?;
    progress.done("");
    Ok(moved)
}

/// Sends what is in a directory, and so on, following no link. Devices, pipes and sockets are left out, and noted.
fn walk(directory: &OwnedFd, path: &mut Vec<u8>, depth: usize, to: &mut Outbox) -> io::Result<()> {
    if depth > DEEPEST {
        return Err(io::Error::other("directories lie too deep in each other"));
    }
    let mut names: Vec<Vec<u8>> = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(name.to_vec());
        }
    }
    names.sort();
    let nofollow = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    for name in names {
        let stat = rustix::fs::statat(directory, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
        let before = path.len();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(&name);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let below =
                    rustix::fs::openat(directory, &*name, nofollow | OFlags::DIRECTORY, Mode::empty())?;
                let below = File::from(below);
                let metadata = below.metadata()?;
                to.put(Piece::Entry(entry(path.clone(), TreeKind::Directory, &metadata)))?;
                walk(&below.into(), path, depth + 1, to)?;
            }
            FileType::RegularFile => {
                let file = File::from(rustix::fs::openat(directory, &*name, nofollow, Mode::empty())?);
                let metadata = file.metadata()?;
                let size = metadata.len();
                to.put(Piece::Entry(entry(path.clone(), TreeKind::File { size }, &metadata)))?;
                content(file, size, to)?;
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(directory, &*name, Vec::new())?;
                let kind = TreeKind::Symlink { target: target.to_bytes().to_vec() };
                let modified_ns =
                    stat.st_mtime * 1_000_000_000 + i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
                let (mode, xattrs) = (0o777, Vec::new());
                let path = path.clone();
                to.put(Piece::Entry(TreeEntry { path, kind, mode, uid: 0, gid: 0, modified_ns, xattrs }))?;
            }
            _ => to.skipped.note(path),
        }
        path.truncate(before);
    }
    Ok(())
}

/// Exactly as many bytes as were announced.
fn content(file: File, size: u64, to: &mut Outbox) -> io::Result<()> {
    let mut file = file.take(size);
    let mut left = size;
    while left > 0 {
        let mut buffer = vec![0; PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Err(io::Error::other("a file became shorter while it was copied"));
        }
        buffer.truncate(count);
        left -= count as u64;
        to.put(Piece::Content(buffer))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_walked_in_batches_and_what_is_special_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        for number in 0..3000 {
            std::fs::write(dir.path().join(format!("d/{number:04}")), "x").unwrap();
        }
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        let (sender, mut batches) = mpsc::channel(1000);
        let mut outbox = Outbox::new(sender);
        let top = OwnedFd::from(File::open(dir.path()).unwrap());
        walk(&top, &mut Vec::new(), 0, &mut outbox).unwrap();
        outbox.flush().unwrap();
        assert_eq!(outbox.skipped, Skipped { names: vec!["socket".to_owned()], count: 1 });
        drop(outbox);
        let (mut sent, mut entries) = (0, 0);
        while let Ok(batch) = batches.try_recv() {
            sent += 1;
            entries += batch.iter().filter(|piece| matches!(piece, Piece::Entry(_))).count();
        }
        assert_eq!(entries, 3001);
        assert!(sent < 10, "{sent} batches");
    }
}
