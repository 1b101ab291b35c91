//! From the host into a workspace.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure};
use agentiso_runtime::guest::{Guest, TreeEntry, TreeKind, TreeOptions, WriteOptions};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use tokio::sync::mpsc;

use super::host::Place;
use super::{Moved, PIECE, trouble};
use crate::actions::about_path;

/// Pieces that wait for the guest.
const WAITING: usize = 8;
/// Directories in directories.
const DEEPEST: usize = 256;

/// Something on its way into the guest.
enum Piece {
    Entry(TreeEntry),
    Content(Vec<u8>),
}

pub(super) async fn send(
    guest: &Guest,
    from: &Place,
    to: &str,
    progress: &Arc<dyn Progress>,
) -> Result<Moved, Failure> {
    let file = from.open()?;
    let metadata = file.metadata().map_err(|error| trouble(&from.path, &error))?;
    if metadata.is_dir() {
        return send_tree(guest, file.into(), from, to, progress).await;
    }
    progress.step(&format!("Copying {}", from.path.display()), Some(metadata.len()));
    let about = |error| about_path(error, to);
    let options = WriteOptions { mode: Some(metadata.mode() & 0o777), append: false, parents: true };
    let mut writer = guest.write_file(to.as_bytes(), options).await.map_err(about)?;
    let mut pieces = read_in_background(file);
    while let Some(piece) = pieces.recv().await {
        let bytes = piece.map_err(|error| trouble(&from.path, &error))?;
        writer.write(&bytes).await.map_err(about)?;
        progress.advance(bytes.len() as u64);
    }
    let bytes = writer.finish().await.map_err(about)?;
    progress.done("");
    Ok(Moved { bytes, files: 1 })
}

fn read_in_background(mut file: File) -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (sender, pieces) = mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut buffer = vec![0; PIECE];
            match file.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => {
                    buffer.truncate(count);
                    if sender.blocking_send(Ok(buffer)).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let _ = sender.blocking_send(Err(error));
                    return;
                }
            }
        }
    });
    pieces
}

async fn send_tree(
    guest: &Guest,
    top: OwnedFd,
    from: &Place,
    to: &str,
    progress: &Arc<dyn Progress>,
) -> Result<Moved, Failure> {
    progress.step(&format!("Copying {}", from.path.display()), None);
    let about = |error| about_path(error, to);
    let mut writer = guest.receive_tree(to.as_bytes(), TreeOptions { owners: false }).await.map_err(about)?;
    let (sender, mut pieces) = mpsc::channel(WAITING);
    let walker = tokio::task::spawn_blocking(move || walk(&top, &mut Vec::new(), 0, &sender));
    let mut moved = Moved::default();
    while let Some(piece) = pieces.recv().await {
        match piece {
            Piece::Entry(entry) => {
                moved.files += 1;
                writer.entry(&entry).await.map_err(about)?;
            }
            Piece::Content(bytes) => {
                moved.bytes += bytes.len() as u64;
                writer.content(&bytes).await.map_err(about)?;
                progress.advance(bytes.len() as u64);
            }
        }
    }
    let walked = walker.await.map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
    walked.map_err(|error| trouble(&from.path, &error))?;
    writer.finish().await.map_err(about)?;
    progress.done("");
    Ok(moved)
}

/// Sends a directory and all in it, following no link. Devices, pipes and sockets are left out.
fn walk(directory: &OwnedFd, path: &mut Vec<u8>, depth: usize, to: &mpsc::Sender<Piece>) -> io::Result<()> {
    if depth > DEEPEST {
        return Err(io::Error::other("directories lie too deep in each other"));
    }
    let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
    let mut names: Vec<Vec<u8>> = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(name.to_vec());
        }
    }
    names.sort();
    for name in names {
        let stat = rustix::fs::statat(directory, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
        let before = path.len();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(&name);
        let entry = |kind| TreeEntry {
            path: path.clone(),
            kind,
            mode: stat.st_mode & 0o777,
            uid: 0,
            gid: 0,
            modified_ns: stat.st_mtime * 1_000_000_000 + i64::try_from(stat.st_mtime_nsec).unwrap_or(0),
            xattrs: Vec::new(),
        };
        let nofollow = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                to.blocking_send(Piece::Entry(entry(TreeKind::Directory))).map_err(|_| gone())?;
                let below =
                    rustix::fs::openat(directory, &*name, nofollow | OFlags::DIRECTORY, Mode::empty())?;
                walk(&below, path, depth + 1, to)?;
            }
            FileType::RegularFile => {
                let file = File::from(rustix::fs::openat(directory, &*name, nofollow, Mode::empty())?);
                let size = file.metadata()?.len();
                to.blocking_send(Piece::Entry(entry(TreeKind::File { size }))).map_err(|_| gone())?;
                content(file, size, to)?;
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(directory, &*name, Vec::new())?;
                let kind = TreeKind::Symlink { target: target.to_bytes().to_vec() };
                to.blocking_send(Piece::Entry(entry(kind))).map_err(|_| gone())?;
            }
            _ => {}
        }
        path.truncate(before);
    }
    Ok(())
}

/// Exactly as many bytes as were announced.
fn content(file: File, size: u64, to: &mpsc::Sender<Piece>) -> io::Result<()> {
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
        to.blocking_send(Piece::Content(buffer)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
    }
    Ok(())
}
