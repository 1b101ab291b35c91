//! Creates one entry of a directory.

use std::fs::File as HostFile;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, Mode, OFlags, mknodat, openat, symlinkat};

use super::apply_meta::{Failed, Metadata};
use super::reuse::{Shared, Sharing, Source};
use crate::content::{Piece, is_zero, pieces};
use crate::error::StoreError;
use crate::node::{Content, Entry, File, Node};

/// Blocks of zeros of large files are not written.
const BLOCK: usize = 4096;

/// Where files may be shared from: the other directory, and the directory at the same path in it.
pub(super) type SharedFrom<'s> = (&'s Source, BorrowedFd<'s>);

/// What was done for an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub(super) shared: Shared,
    pub(super) refused_attributes: u64,
}

const PLAIN: Made = Made { shared: Shared::No, refused_attributes: 0 };

pub(super) fn create(
    metadata: &Metadata<'_>,
    directory: BorrowedFd<'_>,
    entry: &Entry,
    shared_from: Option<SharedFrom<'_>>,
) -> Result<Made, Failed> {
    let name = &*entry.name;
    match &entry.node {
        Node::Directory(_) => Ok(PLAIN),
        Node::File(file) => regular(metadata, directory, name, file, shared_from),
        Node::Symlink { meta, target } => {
            symlinkat(&**target, directory, name).map_err(Failed::at("create"))?;
            metadata.apply_unopened(directory, name, meta)?;
            Ok(PLAIN)
        }
        Node::Fifo { meta } => {
            mknodat(directory, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
                .map_err(Failed::at("create"))?;
            // The mode given above is subject to the umask.
            let chmod =
                rustix::fs::chmodat(directory, name, metadata.pipe_mode(meta), rustix::fs::AtFlags::empty());
            chmod.map_err(Failed::at("change the mode of"))?;
            metadata.apply_unopened(directory, name, meta)?;
            Ok(PLAIN)
        }
    }
}

fn regular(
    metadata: &Metadata<'_>,
    directory: BorrowedFd<'_>,
    name: &[u8],
    file: &File,
    shared_from: Option<SharedFrom<'_>>,
) -> Result<Made, Failed> {
    if let Some((source, from)) = shared_from.filter(|(source, _)| source.sharing == Sharing::HardLink) {
        let shared = source.link(from, directory, name, file);
        if shared != Shared::No {
            return Ok(Made { shared, refused_attributes: 0 });
        }
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(directory, name, flags, Mode::RUSR | Mode::WUSR).map_err(Failed::at("create"))?;
    let mut shared = Shared::No;
    if let Some((source, from)) = shared_from.filter(|(source, _)| source.sharing == Sharing::Reflink) {
        shared = source.clone_into(from, name, file, &fd);
    }
    let mut host = HostFile::from(fd);
    if shared == Shared::No {
        write(metadata, &mut host, file)?;
    }
    let refused_attributes = metadata.apply(host.as_fd(), &file.meta)?;
    Ok(Made { shared, refused_attributes })
}

fn write(metadata: &Metadata<'_>, host: &mut HostFile, file: &File) -> Result<(), Failed> {
    let io = |source| StoreError::Io { what: "write", path: "the file".into(), source };
    let is_chunked = matches!(file.content, Content::Chunked(_));
    pieces(metadata.store, file.content, file.size, |piece| match piece {
        Piece::Hole(len) => host.seek(SeekFrom::Current(len as i64)).map(drop).map_err(io),
        Piece::Data(bytes) if is_chunked => write_sparse(host, bytes).map_err(io),
        Piece::Data(bytes) => host.write_all(bytes).map_err(io),
    })
    .map_err(Failed::Store)?;
    if is_chunked {
        // The file may end with a hole.
        host.set_len(file.size).map_err(io).map_err(Failed::Store)?;
    }
    Ok(())
}

fn write_sparse(host: &mut HostFile, bytes: &[u8]) -> std::io::Result<()> {
    let mut pending = 0;
    let mut at = 0;
    for block in bytes.chunks(BLOCK) {
        if block.len() == BLOCK && is_zero(block) {
            host.write_all(bytes.get(pending..at).unwrap_or_default())?;
            host.seek(SeekFrom::Current(BLOCK as i64))?;
            pending = at + BLOCK;
        }
        at += block.len();
    }
    host.write_all(bytes.get(pending..).unwrap_or_default())
}
