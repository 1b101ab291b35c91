//! Stats files and lists directories.

use agentiso_proto::{DirEntry, FileKind, Metadata, RawPath, Response};
use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Stat},
    io::Errno,
};

use crate::{
    error::{During, Outcome, refused, shown},
    paths::{checked, file_type, open_directory},
    stream::Stream,
};

/// A batch of entries is sent at this many bytes of names and targets, or this many entries. It must fit in a frame.
const BATCH_BYTES: usize = 64 * 1024;
const BATCH_ENTRIES: usize = 1024;

/// Returns the metadata of a path.
pub(crate) fn stat(path: &[u8], follow: bool) -> Outcome<Response> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    let stat =
        rustix::fs::statat(CWD, checked(path)?, flags).during(|| format!("examining {}", shown(path)))?;
    let target = match file_type(&stat) {
        FileType::Symlink => Some(
            rustix::fs::readlink(path, Vec::new())
                .during(|| format!("reading the link {}", shown(path)))?
                .into_bytes(),
        ),
        _ => None,
    };
    Ok(Response::Metadata(metadata(&stat, target)))
}

/// Sends the entries of a directory.
pub(crate) fn list(stream: &Stream, path: &[u8]) -> Outcome<Response> {
    let directory = open_directory(checked(path)?)?;
    let reading = || format!("reading the directory {}", shown(path));
    let mut batch = Batch::default();
    for entry in Dir::read_from(&directory).during(reading)? {
        let entry = entry.during(reading)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let stat = match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // It was removed in the meantime.
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(refused(format!("examining {}", shown(name.to_bytes())), errno)),
        };
        let target = match file_type(&stat) {
            FileType::Symlink => {
                rustix::fs::readlinkat(&directory, name, Vec::new()).ok().map(|link| link.into_bytes())
            }
            _ => None,
        };
        batch.add(DirEntry { name: name.to_bytes().to_vec(), metadata: metadata(&stat, target) });
        if batch.is_full() {
            stream.check()?;
            stream.respond(&batch.take())?;
        }
    }
    if !batch.entries.is_empty() {
        stream.respond(&batch.take())?;
    }
    Ok(Response::Done)
}

#[derive(Default)]
struct Batch {
    entries: Vec<DirEntry>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, entry: DirEntry) {
        self.bytes += entry.name.len() + entry.metadata.target.as_ref().map_or(0, Vec::len);
        self.entries.push(entry);
    }

    fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.entries.len() >= BATCH_ENTRIES
    }

    fn take(&mut self) -> Response {
        self.bytes = 0;
        Response::Entries(std::mem::take(&mut self.entries))
    }
}

/// Converts a status to wire metadata.
pub(crate) fn metadata(stat: &Stat, target: Option<RawPath>) -> Metadata {
    Metadata {
        kind: match file_type(stat) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Symlink,
            _ => FileKind::Other,
        },
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        links: stat.st_nlink,
        modified_ns: modified_ns(stat),
        target,
    }
}

/// Modification time in nanoseconds since the epoch, saturating.
pub(crate) fn modified_ns(stat: &Stat) -> i64 {
    stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec.cast_signed())
}
